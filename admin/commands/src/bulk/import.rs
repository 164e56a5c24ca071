//! `petstore import`: adds the pets of a file, each line once.

mod csv;
mod input;
mod records;

use std::{io, path::PathBuf, thread, time::Duration};

use futures_util::stream;
use petstore_command_line::{RuntimeError, Signals, output::OutputSettings};
use petstore_core::pets::check_import_id;
use petstore_core_client::{CoreTransport, failure_text};
use petstore_proto::v1::{ImportPetsRequest, RejectedLine, pet_store_client::PetStoreClient};
use petstore_settings::CoreAddressSettings;
use serde_json::json;
use tokio::{
    sync::mpsc,
    task::spawn_blocking,
    time::{Instant, sleep},
};
use tonic::{Code, Request, Status};

use self::{
    input::Input,
    records::{Chunk, Records},
};
use super::{Format, Progress, client};
use crate::{
    core_target::{CoreTarget, block_on},
    error::CommandError,
};

/// Maximum number of chunks in one call; the core's response can name that many lines.
const SEGMENT: usize = 8;
/// Deadline of one call. The core bounds each of its steps.
const CALL_DEADLINE: Duration = Duration::from_mins(1);
/// Time for which calls are retried to a core that answered before and has become unreachable.
const RETRY_TIMEOUT: Duration = Duration::from_mins(1);
const FIRST_BACKOFF: Duration = Duration::from_millis(100);
const MAX_BACKOFF: Duration = Duration::from_secs(2);

#[derive(Debug, clap::Args)]
pub struct ImportSettings {
    /// File to import, which may be compressed with gzip, or - for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Format of the file. By default its extension decides, and standard input is ndjson
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: Option<Format>,

    /// Stop at the first invalid line. By default such lines are reported and skipped
    #[arg(long)]
    strict: bool,

    /// Identifier of the import: 1 to 200 visible ASCII characters. No line of an import is added twice. By
    /// default it is the SHA-256 of the file, or a new one for standard input
    #[arg(long, value_name = "ID", value_parser = import_id)]
    import_id: Option<String>,

    #[command(flatten)]
    target: CoreTarget<CoreAddressSettings>,

    #[command(flatten)]
    output: OutputSettings,
}

fn import_id(written: &str) -> Result<String, &'static str> {
    check_import_id(written).map(|()| written.to_owned()).map_err(|violation| violation.rule)
}

pub(crate) fn import_pets(settings: &ImportSettings) -> Result<(), CommandError> {
    let format = Format::choose(settings.format, &settings.file)?;
    block_on(Box::pin(import(settings, format)))
}

/// Message to the core, and the lines before its end that are left out, with the reasons.
#[cfg(feature = "fuzzing")]
pub type FuzzedChunk = (ImportPetsRequest, Vec<(i64, String)>);

/// Returns the messages to the core that import the file after the line `done`.
///
/// # Errors
///
/// If the file cannot be imported.
#[cfg(feature = "fuzzing")]
pub fn fuzz_import(file: Vec<u8>, is_csv: bool, done: i64) -> Result<Vec<FuzzedChunk>, String> {
    let input = Input {
        bytes: Box::new(io::Cursor::new(file)),
        file: PathBuf::new(),
        import_id: "fuzz".to_owned(),
        size: None,
    };
    let format = if is_csv { Format::Csv } else { Format::Ndjson };
    let records = Records::open(input, format, done, false).map_err(|error| error.to_string())?;
    let (sender, mut chunks) = mpsc::channel(1 << 16); // more than a file of a few MiB has
    records.send_to(&sender);
    drop(sender);
    let mut messages = Vec::new();
    while let Some(chunk) = chunks.blocking_recv() {
        let records::Chunk { lines, rejected, last_line, .. } = chunk.map_err(|error| error.to_string())?;
        let rejected = rejected.iter().map(|line| (line.line, note_of(line))).collect();
        let message = ImportPetsRequest { lines, last_line, ..Default::default() };
        messages.push((message, rejected));
    }
    Ok(messages)
}

async fn import(settings: &ImportSettings, format: Format) -> Result<(), CommandError> {
    let mut signals = Signals::listen()?;
    let core = settings.target.connect().await?;
    let (file, import_id) = (settings.file.clone(), settings.import_id.clone());
    let opened = tokio::select! {
        opened = spawn_blocking(move || Input::open(&file, import_id.as_deref())) => opened,
        signal = signals.received() => return Err(CommandError::Failed(format!("ended by {signal}"))),
    };
    let input = opened.map_err(|panic| RuntimeError(io::Error::other(panic)))??;
    let mut import = Import {
        progress: Progress::new(input.size),
        client: client(&core),
        id: input.import_id.clone(),
        strict: settings.strict,
        has_begun: false,
        rejected: 0,
        begun: 0,
        last_line: 0,
        created_in_all: 0,
    };
    let ended = tokio::select! {
        ended = import.deliver(input, format) => ended,
        signal = signals.received() => Err(CommandError::Failed(format!("ended by {signal}"))),
    };
    import.progress.bar.finish_and_clear();
    core.close().await;
    ended.map_err(|cause| import.incomplete(cause))?;
    import.report(settings.output)
}

/// Import in progress.
struct Import {
    progress: Progress,
    client: PetStoreClient<CoreTransport>,
    id: String,
    strict: bool,
    /// `true` once lines were sent, which may have been imported without a response.
    has_begun: bool,
    /// Number of lines that were not imported because they are invalid.
    rejected: u64,
    /// Line up to which earlier runs had imported.
    begun: i64,
    /// Line up to which everything is imported durably.
    last_line: i64,
    /// Number of pets that the import has added, in this run and earlier ones.
    created_in_all: i64,
}

impl Import {
    /// Reads the file in a thread, and sends its lines after those that earlier runs have imported. If the
    /// core is unreachable at first, this fails at once.
    async fn deliver(&mut self, mut input: Input, format: Format) -> Result<(), CommandError> {
        let position = ImportPetsRequest { import_id: self.id.clone(), ..Default::default() };
        self.send(&[position], Duration::ZERO).await?;
        let begun = self.last_line;
        self.begun = begun;
        input.bytes = Box::new(self.progress.bar.wrap_read(input.bytes)); // its bytes move the bar
        let (chunks, mut read) = mpsc::channel(SEGMENT);
        let strict = self.strict;
        // The thread is not joined, because its wait for standard input cannot be interrupted.
        thread::spawn(move || match Records::open(input, format, begun, strict) {
            Ok(records) => records.send_to(&chunks),
            Err(error) => drop(chunks.blocking_send(Err(error))), // the import may have ended
        });
        loop {
            let mut segment = Vec::with_capacity(SEGMENT);
            while segment.len() < SEGMENT {
                match read.recv().await {
                    Some(chunk) => segment.push(chunk?),
                    None => break,
                }
            }
            if segment.is_empty() {
                return Ok(());
            }
            let continues = segment.last().is_some_and(|chunk: &Chunk| chunk.last_line > begun);
            if self.last_line == begun && begun > 0 && continues {
                self.progress.note(&format!("continuing after line {begun}"));
            }
            let further: i64 = segment.iter().map(|chunk| chunk.further_rejected).sum();
            self.rejected += u64::try_from(further).unwrap_or_default();
            for rejected in self.deliver_segment(segment).await? {
                self.progress.note(&note_of(&rejected));
                self.rejected += 1;
                if self.strict {
                    let import_id = self.id.clone();
                    return Err(CommandError::Strict { line: rejected.line, import_id });
                }
            }
        }
    }

    /// Sends chunks until the core has them. The core does not add a line twice. Returns the rejected lines
    /// in ascending order.
    async fn deliver_segment(&mut self, chunks: Vec<Chunk>) -> Result<Vec<RejectedLine>, CommandError> {
        let (mut rejected, mut messages) = (Vec::new(), Vec::new());
        for chunk in chunks {
            rejected.extend(chunk.rejected);
            let Chunk { lines, last_line, .. } = chunk;
            let import_id = self.id.clone();
            messages.push(ImportPetsRequest { import_id, lines, last_line, strict: self.strict });
        }
        self.has_begun = true;
        let before = self.created_in_all;
        rejected.extend(self.send(&messages, RETRY_TIMEOUT).await?);
        rejected.sort_by_key(|rejected| rejected.line);
        // The response's own count is too low if that of an earlier call was lost after it had added some.
        self.progress.advance(u64::try_from(self.created_in_all - before).unwrap_or_default());
        Ok(rejected)
    }

    /// Calls the core, and repeats a call that failed and may succeed later. Returns the lines that it
    /// rejects.
    async fn send(
        &mut self,
        messages: &[ImportPetsRequest],
        retry_for: Duration,
    ) -> Result<Vec<RejectedLine>, CommandError> {
        let began = Instant::now();
        let mut backoff = FIRST_BACKOFF;
        loop {
            let mut request = Request::new(stream::iter(messages.to_vec()));
            request.set_timeout(CALL_DEADLINE);
            match self.client.import_pets(request).await {
                Ok(response) => {
                    let response = response.into_inner();
                    self.last_line = response.last_line;
                    self.created_in_all = response.created_in_all;
                    return Ok(response.rejected_lines);
                }
                Err(status) if is_transient(&status) && began.elapsed() < retry_for => {
                    tracing::warn!(
                        error = failure_text(&status),
                        "the core does not answer; the call is repeated"
                    );
                    sleep(backoff).await;
                    backoff = MAX_BACKOFF.min(2 * backoff);
                }
                Err(status) => return Err(status.into()),
            }
        }
    }

    /// Returns the error of an import that ends early: how far it came and how to continue, unless it has not
    /// begun or the cause says so itself.
    fn incomplete(&self, cause: CommandError) -> CommandError {
        if matches!(cause, CommandError::Strict { .. }) || !self.has_begun && self.last_line == 0 {
            return cause;
        }
        let (last_line, import_id) = (self.last_line, self.id.clone());
        CommandError::Incomplete { cause: Box::new(cause), last_line, import_id }
    }

    fn report(&self, output: OutputSettings) -> Result<(), CommandError> {
        let report = json!({
            "importId": self.id,
            "created": self.progress.pets,
            "createdInAll": self.created_in_all,
            "rejected": self.rejected,
            "lastLine": self.last_line,
            "seconds": self.progress.began.elapsed().as_secs_f64(),
        });
        let is_finished = self.begun > 0 && self.last_line == self.begun;
        output.print(&report, |_| {
            if is_finished {
                format!(
                    "already imported up to line {}; nothing to do. To import it again, give another \
                     --import-id\n",
                    self.begun
                )
            } else {
                self.progress.summary("imported") + "\n"
            }
        })?;
        if self.rejected == 0 { Ok(()) } else { Err(CommandError::Rejected(self.rejected)) }
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

/// Returns the note about a line that is not imported.
fn note_of(RejectedLine { line, reason, message }: &RejectedLine) -> String {
    // A message may quote the file, which must not move the cursor or colour the terminal.
    format!("line {line}: {reason}: {}", message.replace(char::is_control, "\u{fffd}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_a_file_cannot_move_the_terminal_cursor() {
        let message = "\u{1b}[2J name must\nnot".to_owned();
        let rejected = RejectedLine { line: 3, reason: "VALIDATION_FAILED".to_owned(), message };
        assert_eq!(note_of(&rejected), "line 3: VALIDATION_FAILED: \u{fffd}[2J name must\u{fffd}not");
    }
}
