//! Pets of a file in their order, with line numbers.

use std::{io::BufRead, path::PathBuf};

use petstore_gateway::bulk::{self, RowError};
use petstore_proto::v1::NewPet;

use super::{
    csv::Table,
    input::{Input, Line, Lines, too_long},
};
use crate::{bulk::Format, error::BulkError};

/// Line that a row begins on, and its pet or the reason why it has none.
pub(super) type Record = (i64, Result<NewPet, RowError>);

/// Reader of a file's pets.
pub(crate) struct Records {
    lines: Lines<Box<dyn BufRead + Send>>,
    /// Last line to skip.
    done: i64,
    table: Option<Table>,
    file: PathBuf,
}

impl Records {
    /// Opens the file, to read the pets after the line `done`.
    pub(crate) fn open(input: Input, format: Format, done: i64) -> Result<Self, BulkError> {
        let file = input.file.clone();
        let failed = |source| BulkError::Read { file: file.clone(), source };
        let mut text = input.text().map_err(failed)?;
        if format == Format::Ndjson && is_json_array(text.fill_buf().map_err(failed)?) {
            return Err(BulkError::Array { file });
        }
        let mut lines = Lines::new(text);
        let table = match format {
            Format::Ndjson => None,
            Format::Csv => Some(Table::open(&mut lines, &file)?),
        };
        Ok(Self { lines, done, table, file })
    }

    /// Returns the line up to which the file has been read.
    pub(super) fn last_line(&self) -> i64 {
        self.lines.number()
    }

    /// Returns the next pet; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<Record>, BulkError> {
        let Self { lines, done, table, file } = self;
        let failed = |source| BulkError::Read { file: file.clone(), source };
        while lines.number() < *done {
            if lines.next().map_err(failed)?.is_none() {
                return Ok(None);
            }
        }
        match table {
            Some(table) => table.next(lines).map_err(failed),
            None => next_json(lines).map_err(failed),
        }
    }
}

/// Returns `true` if the first character of the text is a `[`. No pet begins with it.
fn is_json_array(text: &[u8]) -> bool {
    text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text).trim_ascii_start().starts_with(b"[")
}

fn next_json<R: BufRead>(lines: &mut Lines<R>) -> std::io::Result<Option<Record>> {
    loop {
        let line = lines.number() + 1;
        return Ok(match lines.next()? {
            None => None,
            Some(Line::Text(text)) if text.trim_ascii().is_empty() => continue,
            Some(Line::Text(text)) => Some((line, bulk::from_json(text))),
            Some(Line::TooLong) => Some((line, Err(too_long()))),
        });
    }
}
