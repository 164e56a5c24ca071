//! The pets of a file, one after the other, and the lines that they stand on.

use std::{io::BufRead, path::PathBuf};

use petstore_gateway::exchange::{self, Refusal};
use petstore_proto::v1::NewPet;

use super::{csv::Table, input::Input};
use crate::bulk::{BulkError, Format, Line, Lines};

/// A pet, or why there is none, and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Record {
    /// The line that it begins on.
    pub(crate) line: i64,
    pub(crate) pet: Result<NewPet, Refusal>,
}

/// The pets of a file.
pub(crate) struct Records {
    lines: Lines<Box<dyn BufRead + Send>>,
    /// Lines up to this one are passed over.
    done: i64,
    table: Option<Table>,
    file: PathBuf,
}

impl Records {
    /// The pets after the line `done`.
    pub(crate) fn of(input: Input, format: Format, done: i64) -> Result<Self, BulkError> {
        let file = input.file.clone();
        let failed = |source| BulkError::Read { file: file.clone(), source };
        let mut text = input.text().map_err(failed)?;
        if format == Format::Ndjson && begins_an_array(text.fill_buf().map_err(failed)?) {
            return Err(BulkError::Array { file });
        }
        let mut lines = Lines::of(text);
        let table = match format {
            Format::Ndjson => None,
            Format::Csv => Some(Table::begin(&mut lines, &file)?),
        };
        Ok(Self { lines, done, table, file })
    }

    /// The line up to which the file has been read.
    pub(crate) fn last_line(&self) -> i64 {
        self.lines.number()
    }

    /// The next pet; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Record>, BulkError> {
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

/// Whether the first thing in the text is a `[`: no pet begins so.
fn begins_an_array(text: &[u8]) -> bool {
    text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text).trim_ascii_start().starts_with(b"[")
}

fn next_json<R: BufRead>(lines: &mut Lines<R>) -> std::io::Result<Option<Record>> {
    loop {
        let line = lines.number() + 1;
        return Ok(match lines.next()? {
            None => None,
            Some(Line::Text(text)) if text.trim_ascii().is_empty() => continue,
            Some(Line::Text(text)) => Some(Record { line, pet: exchange::from_json(text) }),
            Some(Line::TooLong) => Some(Record { line, pet: Err(too_long()) }),
        });
    }
}

pub(crate) fn too_long() -> Refusal {
    Refusal { reason: "BODY_TOO_LARGE", message: "the line must be at most 64 KiB long".to_owned() }
}
