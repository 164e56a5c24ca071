//! Cutting a file into chunks, each of which takes effect as a whole.

use std::mem;

use petstore_proto::v1::ImportLine;
use tokio::sync::mpsc;

use super::{delivery::Rejected, records::Records};
use crate::bulk::BulkError;

/// The most lines of a chunk: what the core takes in a message.
const MAX_LINES: usize = 1_000;
/// The most lines between the first and the last of a chunk, so that a position is told now and then where nothing
/// can be imported.
const MAX_SPAN: i64 = 10_000;

/// Lines of a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Chunk {
    /// Those with a pet.
    pub(crate) lines: Vec<ImportLine>,
    /// Those without one.
    pub(crate) rejected: Vec<Rejected>,
    /// Everything up to this line is in this chunk or one before.
    pub(crate) last_line: i64,
}

/// Makes chunks of a file's lines.
pub(crate) struct Chunks {
    records: Records,
    strict: bool,
    is_over: bool,
}

impl Chunks {
    /// If it is `strict`, they end before the first line that has no pet.
    pub(crate) fn new(records: Records, strict: bool) -> Self {
        Self { records, strict, is_over: false }
    }

    /// Sends every chunk, or until nobody takes any more.
    pub(crate) fn send_to(mut self, receiver: &mpsc::Sender<Result<Chunk, BulkError>>) {
        while let Some(chunk) = self.next().transpose() {
            let failed = chunk.is_err();
            if receiver.blocking_send(chunk).is_err() || failed {
                return;
            }
        }
    }

    fn next(&mut self) -> Result<Option<Chunk>, BulkError> {
        if mem::take(&mut self.is_over) {
            return Ok(None);
        }
        let first = self.records.last_line();
        let mut chunk = Chunk::default();
        while chunk.lines.len() < MAX_LINES && self.records.last_line() - first < MAX_SPAN {
            let Some(record) = self.records.next()? else {
                self.is_over = true;
                break;
            };
            match record.pet {
                Ok(pet) => chunk.lines.push(ImportLine { line: record.line, pet: Some(pet) }),
                Err(refusal) => {
                    chunk.rejected.push(Rejected {
                        line: record.line,
                        reason: refusal.reason.to_owned(),
                        message: refusal.message,
                    });
                    if self.strict {
                        chunk.last_line = record.line - 1;
                        self.is_over = true;
                        return Ok(Some(chunk));
                    }
                }
            }
        }
        chunk.last_line = self.records.last_line();
        Ok((chunk.last_line > first).then_some(chunk))
    }
}
