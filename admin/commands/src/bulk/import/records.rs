//! Pets of a file in their order, with line numbers, and in chunks, each of which takes effect as a whole.

use std::{
    io::{self, BufRead},
    mem,
    path::PathBuf,
};

use petstore_gateway::pets::{self, RowError};
use petstore_proto::v1::{ImportLine, NewPet, RejectedLine};
use tokio::sync::mpsc;

use super::{
    csv::Table,
    input::{Input, Line, Lines, too_long},
};
use crate::{bulk::Format, error::CommandError};

/// Line that a row begins on, and its pet or the reason why it has none.
type Record = (i64, Result<NewPet, RowError>);

/// Maximum number of lines in a chunk, which is the maximum of a message to the core.
const MAX_LINES: usize = 1_000;
/// Maximum number of lines between the first and the last of a chunk, so that the import has a position to
/// continue from even if no line can be imported.
const MAX_SPAN: i64 = 10_000;

/// Lines of a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Chunk {
    /// Lines with a pet.
    pub(crate) lines: Vec<ImportLine>,
    /// Lines without a pet.
    pub(crate) rejected: Vec<RejectedLine>,
    /// Number of lines that rejected rows span beyond the first of each.
    pub(crate) further_rejected: i64,
    /// Number of the last line that is in this chunk or one before.
    pub(crate) last_line: i64,
}

/// Reader of a file's pets, in chunks.
pub(crate) struct Records {
    lines: Lines<Box<dyn BufRead + Send>>,
    /// Last line to skip.
    done: i64,
    table: Option<Table>,
    file: PathBuf,
    strict: bool,
    is_over: bool,
}

impl Records {
    /// Opens the file, to read the pets after the line `done`. With `strict`, they end before the first line
    /// that is not a pet.
    pub(crate) fn open(input: Input, format: Format, done: i64, strict: bool) -> Result<Self, CommandError> {
        let file = input.file.clone();
        let failed = |source| CommandError::Read { file: file.clone(), source };
        let mut text = input.text().map_err(failed)?;
        let begin = text.fill_buf().map_err(failed)?;
        let unreadable = |reason| Err(CommandError::Unreadable { file: file.clone(), reason });
        let has_mark_of_utf16 = begin.starts_with(b"\xff\xfe") || begin.starts_with(b"\xfe\xff");
        // A zero byte is half of an ASCII character; two are none.
        if has_mark_of_utf16 || begin.iter().take(2).filter(|byte| **byte == 0).count() == 1 {
            return unreadable(UTF_16.to_owned());
        }
        let text_begins = begin.strip_prefix(b"\xef\xbb\xbf").unwrap_or(begin).trim_ascii_start();
        if format == Format::Ndjson && text_begins.starts_with(b"[") {
            return unreadable(JSON_ARRAY.to_owned());
        }
        let mut lines = Lines::new(text);
        let table = match format {
            Format::Ndjson => None,
            Format::Csv => Some(Table::open(&mut lines, &file)?),
        };
        Ok(Self { lines, done, table, file, strict, is_over: false })
    }

    /// Sends all chunks, unless the receiver closes first.
    pub(crate) fn send_to(mut self, receiver: &mpsc::Sender<Result<Chunk, CommandError>>) {
        while let Some(chunk) = self.next_chunk().transpose() {
            let failed = chunk.is_err();
            if receiver.blocking_send(chunk).is_err() || failed {
                return;
            }
        }
    }

    fn next_chunk(&mut self) -> Result<Option<Chunk>, CommandError> {
        if mem::take(&mut self.is_over) {
            return Ok(None);
        }
        let first = self.lines.number();
        let mut chunk = Chunk::default();
        while chunk.lines.len() < MAX_LINES && self.lines.number() - first < MAX_SPAN {
            let Some((line, pet)) = self.next_record()? else {
                self.is_over = true;
                break;
            };
            match pet {
                Ok(pet) => chunk.lines.push(ImportLine { line, pet: Some(pet) }),
                Err((reason, message)) => {
                    chunk.further_rejected += self.lines.number() - line;
                    chunk.rejected.push(RejectedLine { line, reason: reason.to_owned(), message });
                    if self.strict {
                        chunk.last_line = line - 1;
                        self.is_over = true;
                        return Ok(Some(chunk));
                    }
                }
            }
        }
        chunk.last_line = self.lines.number();
        Ok((chunk.last_line > first).then_some(chunk))
    }

    /// Returns the next pet; `None` at the end.
    fn next_record(&mut self) -> Result<Option<Record>, CommandError> {
        let Self { lines, done, table, file, .. } = self;
        let failed = |source| CommandError::Read { file: file.clone(), source };
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

const UTF_16: &str = "is UTF-16, but import reads UTF-8: convert it with `iconv -f UTF-16 -t UTF-8`";
const JSON_ARRAY: &str = "holds a JSON array, but import reads NDJSON, one JSON object a line: convert it \
    with `jq -c '.[]'`";

fn next_json<R: BufRead>(lines: &mut Lines<R>) -> io::Result<Option<Record>> {
    loop {
        let line = lines.number() + 1;
        return Ok(match lines.next()? {
            None => None,
            Some(Line::Text(text)) if text.trim_ascii().is_empty() => continue,
            Some(Line::Text(text)) => Some((line, pets::from_json(text))),
            Some(Line::TooLong) => Some((line, Err(too_long()))),
        });
    }
}
