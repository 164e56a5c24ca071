//! Cuts a file into chunks, each of which takes effect as a whole.

use std::mem;

use petstore_gateway::bulk::RowError;
use petstore_proto::v1::{ImportLine, RejectedLine};
use tokio::sync::mpsc;

use super::records::Records;
use crate::error::BulkError;

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
    /// Number of the last line that is in this chunk or one before.
    pub(crate) last_line: i64,
}

/// Splits a file's lines into chunks.
pub(crate) struct Chunks {
    records: Records,
    strict: bool,
    is_over: bool,
}

impl Chunks {
    /// Creates the chunks of these records. With `strict`, they end before the first line that is not a pet.
    pub(crate) fn new(records: Records, strict: bool) -> Self {
        Self { records, strict, is_over: false }
    }

    /// Sends all chunks, unless the receiver closes first.
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
            let Some((line, pet)) = self.records.next()? else {
                self.is_over = true;
                break;
            };
            match pet {
                Ok(pet) => chunk.lines.push(ImportLine { line, pet: Some(pet) }),
                Err(RowError { reason, message }) => {
                    chunk.rejected.push(RejectedLine { line, reason: reason.to_owned(), message });
                    if self.strict {
                        chunk.last_line = line - 1;
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
