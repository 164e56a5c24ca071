//! Sends chunks to the core, and repeats a call that failed until the core has them.

use std::time::Duration;

use futures_util::stream;
use petstore_core_client::{CoreTransport, failure_text};
use petstore_proto::v1::{
    ImportPetsRequest, ImportPetsResponse, RejectedLine, pet_store_client::PetStoreClient,
};
use tokio::time::{self, Instant};
use tonic::{Code, Request, Status};

use super::records::Chunk;
use crate::error::{BulkError, CommandError};

/// Maximum number of chunks in one call; the core's answer can name that many lines.
pub(crate) const SEGMENT: usize = 8;
/// Deadline of one call. The core bounds each of its steps.
const CALL_DEADLINE: Duration = Duration::from_mins(1);
/// Time for which calls are retried to a core that answered before and has become unreachable.
const RETRY_TIMEOUT: Duration = Duration::from_mins(1);
const FIRST_BACKOFF: Duration = Duration::from_millis(100);
const MAX_BACKOFF: Duration = Duration::from_secs(2);

/// Import in progress.
#[derive(Debug)]
pub(crate) struct Delivery {
    client: PetStoreClient<CoreTransport>,
    pub(super) import_id: String,
    strict: bool,
    /// `true` once lines were sent, which may have been imported without an answer.
    has_begun: bool,
    /// Line up to which everything is imported durably.
    pub(super) last_line: i64,
    /// Number of pets that the import has added, in this run and earlier ones.
    pub(super) created_in_all: i64,
}

impl Delivery {
    pub(crate) fn new(client: PetStoreClient<CoreTransport>, import_id: &str, strict: bool) -> Self {
        let import_id = import_id.to_owned();
        Self { client, import_id, strict, has_begun: false, last_line: 0, created_in_all: 0 }
    }

    /// Returns the error of an import that ends early: how far it came and how to continue, unless it has not
    /// begun or the cause says so itself.
    pub(crate) fn incomplete(&self, cause: CommandError) -> CommandError {
        let is_complete = matches!(cause, CommandError::Bulk(BulkError::Strict { .. }));
        if is_complete || !self.has_begun && self.last_line == 0 {
            return cause;
        }
        let (last_line, import_id) = (self.last_line, self.import_id.clone());
        BulkError::Incomplete { cause: Box::new(cause), last_line, import_id }.into()
    }

    /// Returns the line up to which earlier runs have imported. If the core is unreachable, this fails at
    /// once.
    pub(crate) async fn position(&mut self) -> Result<i64, BulkError> {
        let message = ImportPetsRequest { import_id: self.import_id.clone(), ..Default::default() };
        self.call(&[message], Duration::ZERO).await?;
        Ok(self.last_line)
    }

    /// Sends chunks until the core has them. The core does not add a line twice. Returns the number of pets
    /// added, and the rejected lines in ascending order.
    pub(crate) async fn deliver(
        &mut self,
        chunks: Vec<Chunk>,
    ) -> Result<(u64, Vec<RejectedLine>), BulkError> {
        let mut rejected = Vec::new();
        let messages: Vec<_> = chunks
            .into_iter()
            .map(|chunk| {
                rejected.extend(chunk.rejected);
                let Chunk { lines, last_line, .. } = chunk;
                ImportPetsRequest { import_id: self.import_id.clone(), lines, last_line, strict: self.strict }
            })
            .collect();
        self.has_begun = true;
        let before = self.created_in_all;
        let answer = self.call(&messages, RETRY_TIMEOUT).await?;
        rejected.extend(answer.rejected_lines);
        rejected.sort_by_key(|rejected| rejected.line);
        // The answer's own count is too low if the answer to an earlier call was lost after it had added
        // some.
        let created = u64::try_from(self.created_in_all - before).unwrap_or_default();
        Ok((created, rejected))
    }

    async fn call(
        &mut self,
        messages: &[ImportPetsRequest],
        retry_for: Duration,
    ) -> Result<ImportPetsResponse, BulkError> {
        let began = Instant::now();
        let mut backoff = FIRST_BACKOFF;
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
                Err(status) if is_transient(&status) && began.elapsed() < retry_for => {
                    tracing::warn!(
                        error = failure_text(&status),
                        "the core does not answer; the call is repeated"
                    );
                    time::sleep(backoff).await;
                    backoff = MAX_BACKOFF.min(2 * backoff);
                }
                Err(status) => return Err(status.into()),
            }
        }
    }
}

/// Returns `true` if the same call may succeed later. A failed transport is reported as unavailable, unknown
/// or cancelled.
fn is_transient(status: &Status) -> bool {
    matches!(
        status.code(),
        Code::Unavailable | Code::DeadlineExceeded | Code::Aborted | Code::Cancelled | Code::Unknown
    )
}
