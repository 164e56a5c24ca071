//! `petstore import`: adds the pets of a file, each line once.

mod csv;
mod delivery;
mod input;
mod records;

use std::{io, path::PathBuf, thread};

use petstore_command_line::{RuntimeError, Signals, output::OutputSettings};
use petstore_core::pets::ImportId;
use petstore_proto::v1::RejectedLine;
use petstore_settings::CoreAddressSettings;
use serde_json::json;
use tokio::{sync::mpsc, task::spawn_blocking};

use self::{
    delivery::{Delivery, SEGMENT},
    input::Input,
    records::{Chunks, Records},
};
use super::{Format, Progress, client};
use crate::{
    core_target::{CoreTarget, block_on},
    error::{BulkError, CommandError},
};

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
    ImportId::parse(written).map(|_| written.to_owned()).map_err(|violation| violation.rule)
}

pub(crate) fn run(settings: &ImportSettings) -> Result<(), CommandError> {
    let format = Format::choose(settings.format, &settings.file)?;
    block_on(Box::pin(import(settings, format)))
}

/// Message to the core, and the lines before its end that are left out, with the reasons.
#[cfg(feature = "fuzzing")]
pub type FuzzedChunk = (petstore_proto::v1::ImportPetsRequest, Vec<(i64, String)>);

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
    let records = Records::open(input, format, done).map_err(|error| error.to_string())?;
    let (sender, mut chunks) = mpsc::channel(1 << 16); // more than a file of a few MiB has
    Chunks::new(records, false).send_to(&sender);
    drop(sender);
    let mut messages = Vec::new();
    while let Some(chunk) = chunks.blocking_recv() {
        let records::Chunk { lines, rejected, last_line, .. } = chunk.map_err(|error| error.to_string())?;
        let rejected = rejected.iter().map(|line| (line.line, note_of(line))).collect();
        let message = petstore_proto::v1::ImportPetsRequest { lines, last_line, ..Default::default() };
        messages.push((message, rejected));
    }
    Ok(messages)
}

async fn import(settings: &ImportSettings, format: Format) -> Result<(), CommandError> {
    let mut signals = Signals::listen()?;
    let core = settings.target.connect().await?;
    let (file, import_id) = (settings.file.clone(), settings.import_id.clone());
    let opened = spawn_blocking(move || Input::open(&file, import_id.as_deref())).await;
    let input = opened.map_err(|panic| RuntimeError(io::Error::other(panic)))??;
    let mut work = Work {
        settings,
        progress: Progress::new(input.size),
        delivery: Delivery::new(client(&core), &input.import_id, settings.strict),
        rejected: 0,
        begun: 0,
    };
    let ended = tokio::select! {
        ended = work.run(input, format) => ended,
        signal = signals.received() => Err(BulkError::ImportEnded(signal).into()),
    };
    work.progress.end();
    core.close().await;
    ended.map_err(|cause| work.delivery.incomplete(cause))?;
    work.report()
}

struct Work<'a> {
    settings: &'a ImportSettings,
    progress: Progress,
    delivery: Delivery,
    /// Number of lines that were not imported because they are invalid.
    rejected: u64,
    /// Line up to which earlier runs had imported.
    begun: i64,
}

impl Work<'_> {
    async fn run(&mut self, mut input: Input, format: Format) -> Result<(), CommandError> {
        let begun = self.delivery.position().await?;
        self.begun = begun;
        input.bytes = self.progress.observe(input.bytes);
        let (chunks, mut read) = mpsc::channel(SEGMENT);
        let strict = self.settings.strict;
        // The thread is not joined, because its wait for standard input cannot be interrupted.
        thread::spawn(move || match Records::open(input, format, begun) {
            Ok(records) => Chunks::new(records, strict).send_to(&chunks),
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
            let continues = segment.last().is_some_and(|chunk| chunk.last_line > begun);
            if self.delivery.last_line == begun && begun > 0 && continues {
                self.progress.note(&format!("continuing after line {begun}"));
            }
            let further: i64 = segment.iter().map(|chunk| chunk.further_rejected).sum();
            self.rejected += u64::try_from(further).unwrap_or_default();
            let (created, rejected) = self.delivery.deliver(segment).await?;
            self.progress.advance(created);
            for rejected in &rejected {
                self.progress.note(&note_of(rejected));
                self.rejected += 1;
                if self.settings.strict {
                    let import_id = self.delivery.import_id.clone();
                    return Err(BulkError::Strict { line: rejected.line, import_id }.into());
                }
            }
        }
    }

    fn report(&self) -> Result<(), CommandError> {
        let (progress, delivery) = (&self.progress, &self.delivery);
        let report = json!({
            "importId": delivery.import_id,
            "created": progress.pets,
            "createdInAll": delivery.created_in_all,
            "rejected": self.rejected,
            "lastLine": delivery.last_line,
            "seconds": progress.began.elapsed().as_secs_f64(),
        });
        let is_finished = self.begun > 0 && delivery.last_line == self.begun;
        self.settings.output.print(&report, |_| {
            if is_finished {
                format!(
                    "already imported up to line {}; nothing to do. To import it again, give another \
                     --import-id\n",
                    self.begun
                )
            } else {
                progress.summary("imported") + "\n"
            }
        })?;
        match self.rejected {
            0 => Ok(()),
            rejected => Err(BulkError::Rejected(rejected).into()),
        }
    }
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
