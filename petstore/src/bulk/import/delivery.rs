//! Bringing chunks to the core, again and again until it has them.

use std::{
    fmt::{self, Write as _},
    time::Duration,
};

use futures_util::stream;
use petstore_gateway::core_client::{CoreTransport, failure_text};
use petstore_proto::v1::{
    ImportPetsRequest, ImportPetsResponse, RejectedLine, pet_store_client::PetStoreClient,
};
use tokio::time::{self, Instant};
use tonic::{Code, Request, Status};

use super::chunks::Chunk;
use crate::bulk::BulkError;

/// The most chunks of one call: as many lines as the core's answer can name.
pub(crate) const SEGMENT: usize = 8;
/// How long one call may take. The core bounds each of its steps.
const CALL_DEADLINE: Duration = Duration::from_mins(1);
/// For how long a core is asked again that was there and is away.
const RETRY_TIMEOUT: Duration = Duration::from_mins(1);
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// A line that is not imported, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rejected {
    pub(crate) line: i64,
    pub(crate) reason: String,
    pub(crate) message: String,
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}: ", self.line, self.reason)?;
        // A message may repeat what stands in the file: nothing of it may move the cursor or colour the terminal.
        self.message
            .chars()
            .try_for_each(|char| f.write_char(if char.is_control() { '\u{fffd}' } else { char }))
    }
}

impl From<RejectedLine> for Rejected {
    fn from(line: RejectedLine) -> Self {
        Self { line: line.line, reason: line.reason, message: line.message }
    }
}

/// What has become of some chunks.
#[derive(Debug)]
pub(crate) struct Delivered {
    pub(crate) created: u64,
    /// In their order.
    pub(crate) rejected: Vec<Rejected>,
}

/// An import under way.
#[derive(Debug)]
pub(crate) struct Delivery {
    client: PetStoreClient<CoreTransport>,
    import_id: String,
    strict: bool,
    last_line: i64,
    created_in_all: i64,
}

impl Delivery {
    pub(crate) fn new(client: PetStoreClient<CoreTransport>, import_id: &str, strict: bool) -> Self {
        Self { client, import_id: import_id.to_owned(), strict, last_line: 0, created_in_all: 0 }
    }

    pub(crate) fn import_id(&self) -> &str {
        &self.import_id
    }

    /// Everything up to this line is imported for good.
    pub(crate) fn last_line(&self) -> i64 {
        self.last_line
    }

    /// How many pets the import has added, in this run and those before.
    pub(crate) fn created_in_all(&self) -> i64 {
        self.created_in_all
    }

    /// The line up to which the import has come before. A core that is not there at first is not waited for.
    pub(crate) async fn ask(&mut self) -> Result<i64, BulkError> {
        let message = ImportPetsRequest { import_id: self.import_id.clone(), ..Default::default() };
        self.call(&[message], Duration::ZERO).await?;
        Ok(self.last_line)
    }

    /// Brings chunks, until the core has them. What it has already is not added again.
    pub(crate) async fn deliver(&mut self, chunks: Vec<Chunk>) -> Result<Delivered, BulkError> {
        let mut rejected = Vec::new();
        let messages: Vec<_> = chunks
            .into_iter()
            .map(|chunk| {
                rejected.extend(chunk.rejected);
                let Chunk { lines, last_line, .. } = chunk;
                ImportPetsRequest { import_id: self.import_id.clone(), lines, last_line, strict: self.strict }
            })
            .collect();
        let before = self.created_in_all;
        let answer = self.call(&messages, RETRY_TIMEOUT).await?;
        rejected.extend(answer.rejected_lines.into_iter().map(Rejected::from));
        rejected.sort_by_key(|rejected| rejected.line);
        // Not the answer's own count: a call before it, whose answer was lost, may have added the rest.
        let created = u64::try_from(self.created_in_all - before).unwrap_or_default();
        Ok(Delivered { created, rejected })
    }

    async fn call(
        &mut self,
        messages: &[ImportPetsRequest],
        patience: Duration,
    ) -> Result<ImportPetsResponse, BulkError> {
        let began = Instant::now();
        let mut pause = FIRST_PAUSE;
        loop {
            let mut request = Request::new(stream::iter(messages.to_vec()));
            request.set_timeout(CALL_DEADLINE);
            match self.client.import_pets(request).await {
                Ok(answer) => {
                    let answer = answer.into_inner();
                    self.last_line = answer.last_line;
                    self.created_in_all = answer.created_in_all;
                    return Ok(answer);
                }
                Err(status) if may_pass(&status) && began.elapsed() < patience => {
                    tracing::warn!(
                        error = failure_text(&status),
                        "the core does not answer, and is called again"
                    );
                    time::sleep(pause).await;
                    pause = LONGEST_PAUSE.min(2 * pause);
                }
                Err(status) => return Err(status.into()),
            }
        }
    }
}

/// Whether the same call may succeed later. A transport that fails is told as unavailable, unknown or cancelled.
fn may_pass(status: &Status) -> bool {
    matches!(
        status.code(),
        Code::Unavailable | Code::DeadlineExceeded | Code::Aborted | Code::Cancelled | Code::Unknown
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_in_a_file_cannot_move_the_cursor() {
        let message = "\u{1b}[2J name must\nnot".to_owned();
        let rejected = Rejected { line: 3, reason: "VALIDATION_FAILED".to_owned(), message };
        assert_eq!(rejected.to_string(), "line 3: VALIDATION_FAILED: \u{fffd}[2J name must\u{fffd}not");
    }
}
