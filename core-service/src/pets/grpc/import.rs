//! `ImportPets`: a stream of chunks, each of which takes effect separately.

use petstore_grpc_server::CallFault;
use petstore_proto::v1::{ImportPetsRequest, ImportPetsResponse, RejectedLine};
use tokio::time;
use tonic::{Status, Streaming};

use super::parse_pet;
use crate::{
    Core,
    errors::PetStoreError,
    grpc::{BOUNDS, CallResult},
    pets::{ImportChunk, check_import_id},
    violations::Violation,
};

/// One call.
struct Import<'a> {
    core: &'a Core,
    id: String,
    strict: bool,
    response: ImportPetsResponse,
}

/// Reads the stream to its end. A broken stream ends with tonic's status; the chunks that had arrived have
/// taken effect.
pub(super) async fn import(
    core: &Core,
    mut messages: Streaming<ImportPetsRequest>,
) -> CallResult<Result<ImportPetsResponse, Status>> {
    let first = match next(core, &mut messages).await? {
        Ok(first) => first.unwrap_or_default(), // an empty stream has no name
        Err(broken) => return Ok(Err(broken)),
    };
    check_import_id(&first.import_id)?;
    let (id, response) = (first.import_id.clone(), ImportPetsResponse::default());
    let mut import = Import { core, id, strict: first.strict, response };
    // Before it waits: a line without a pet has 2 bytes in a message, and 56 in memory.
    let mut chunk = import.judge(first)?;
    let progress = in_turn(core, core.store.pets.import_progress(&import.id)).await?;
    (import.response.last_line, import.response.created_in_all) = (progress.last_line, progress.created);
    loop {
        import.take(chunk).await?;
        if import.is_over() {
            return Ok(Ok(import.response));
        }
        chunk = match next(core, &mut messages).await? {
            Ok(Some(message)) => import.judge(message)?,
            Ok(None) => return Ok(Ok(import.response)),
            Err(broken) => return Ok(Err(broken)),
        };
    }
}

async fn next(
    core: &Core,
    messages: &mut Streaming<ImportPetsRequest>,
) -> CallResult<Result<Option<ImportPetsRequest>, Status>> {
    time::timeout(core.import_idle_timeout, messages.message())
        .await
        .map_err(|_| CallFault::DeadlineExceeded.into())
}

/// Runs a piece of a stream's work in its turn, with the deadline of a call. The stream only holds a permit
/// meanwhile.
async fn in_turn<T>(core: &Core, work: impl Future<Output = CallResult<T>>) -> CallResult<T> {
    let in_turn = async {
        let _permit = core.chunks.acquire().await; // never closed
        work.await
    };
    time::timeout(BOUNDS.call_timeout, in_turn).await.map_err(|_| CallFault::DeadlineExceeded)?
}

impl Import<'_> {
    /// Returns `true` if a rejected line ends the call.
    fn is_over(&self) -> bool {
        self.strict && self.response.rejected > 0
    }

    async fn take(&mut self, chunk: ImportChunk) -> CallResult<()> {
        if chunk.last_line == 0 {
            return Ok(()); // it asks for the position, or its first line is rejected
        }
        let work = self.core.store.pets.import_chunk(&self.id, chunk, self.core.clock.now());
        let (created, progress) = in_turn(self.core, work).await?;
        self.response.created += created;
        self.response.last_line = progress.last_line;
        self.response.created_in_all = progress.created;
        Ok(())
    }

    /// Validates the lines and leaves out the rejected ones. If a rejection ends the call, the lines after it
    /// are left out as well.
    fn judge(&mut self, message: ImportPetsRequest) -> CallResult<ImportChunk> {
        if !message.import_id.is_empty() && message.import_id != self.id {
            return Err(Violation::new("importId", "must be the same in all messages of a call").into());
        }
        let numbers: Vec<i64> = message.lines.iter().map(|line| line.line).collect();
        let mut last_line = ImportChunk::end(&numbers, message.last_line)?;
        let mut lines = Vec::with_capacity(message.lines.len());
        for line in message.lines {
            match parse_pet(line.pet) {
                Ok(pet) => lines.push((line.line, pet)),
                Err(violations) => {
                    self.reject(line.line, &PetStoreError::Invalid(violations));
                    if self.is_over() {
                        last_line = line.line - 1;
                        break;
                    }
                }
            }
        }
        Ok(ImportChunk { lines, last_line })
    }

    fn reject(&mut self, line: i64, error: &PetStoreError) {
        self.response.rejected += 1;
        // With the longest texts, this many fit into an answer.
        if self.response.rejected_lines.len() < 8_000 {
            let (reason, message) = (error.code().name.to_owned(), error.to_string());
            self.response.rejected_lines.push(RejectedLine { line, reason, message });
        }
    }
}
