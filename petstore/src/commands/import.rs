//! `petstore import`: pets from a file into the catalogue, each line once.

use std::{io, path::PathBuf, thread};

use serde_json::json;
use tokio::{runtime, sync::mpsc, task::spawn_blocking};

use crate::{
    bulk::{
        BulkError, Format, Progress, Target,
        import::{Chunks, Delivery, Input, Records, Rejected, SEGMENT},
    },
    error::CliError,
    logging,
    output::OutputSettings,
    process::signals::Signals,
    settings::LogFormat,
};

/// What the log tells of: what goes wrong.
const LOG_LEVEL: &str = "warn";

#[derive(Debug, clap::Args)]
pub(crate) struct ImportSettings {
    /// What to import: a file, or - for standard input; compressed with gzip or not
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// How the file is written. Otherwise its name tells, and standard input is ndjson
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: Option<Format>,

    /// Ends the import at the first line that is not allowed. Otherwise such lines are told and left out
    #[arg(long)]
    strict: bool,

    /// Names the import, of which no line is imported twice: 1 to 200 visible ASCII characters. Otherwise the file's
    /// SHA-256 is its name, and standard input gets a new one
    #[arg(long, value_name = "ID")]
    import_id: Option<String>,

    #[command(flatten)]
    target: Target,

    #[command(flatten)]
    output: OutputSettings,
}

pub(crate) fn run(settings: &ImportSettings) -> Result<(), CliError> {
    logging::init(LOG_LEVEL, LogFormat::Pretty)?;
    let format = Format::of(settings.format, &settings.file)?;
    let runtime = runtime::Builder::new_current_thread().enable_all().build().map_err(CliError::runtime)?;
    let ended = runtime.block_on(import(settings, format));
    runtime.shutdown_background();
    ended
}

async fn import(settings: &ImportSettings, format: Format) -> Result<(), CliError> {
    let mut signals = Signals::listen().map_err(CliError::runtime)?;
    let core = settings.target.open().await?;
    let (file, import_id) = (settings.file.clone(), settings.import_id.clone());
    let opened = spawn_blocking(move || Input::open(&file, import_id.as_deref())).await;
    let input = opened.map_err(|panic| CliError::runtime(io::Error::other(panic)))??;
    let mut work = Work {
        settings,
        progress: Progress::begin(input.size),
        delivery: Delivery::new(core.client.clone(), &input.import_id, settings.strict),
        rejected: 0,
    };
    let ended = tokio::select! {
        ended = work.run(input, format) => ended,
        signal = signals.received() => Err(work.ended_by(signal).into()),
    };
    work.progress.end();
    core.close().await;
    ended.and_then(|()| work.report())
}

struct Work<'a> {
    settings: &'a ImportSettings,
    progress: Progress,
    delivery: Delivery,
    rejected: u64,
}

impl Work<'_> {
    async fn run(&mut self, input: Input, format: Format) -> Result<(), CliError> {
        let begun = self.delivery.ask().await?;
        if begun > 0 {
            self.progress.note(&format!("going on after line {begun}"));
        }
        let bytes = input.read.clone();
        let (chunks, mut read) = mpsc::channel(SEGMENT);
        let strict = self.settings.strict;
        // A thread of its own, and not waited for: nobody can interrupt its wait for standard input.
        thread::spawn(move || match Records::of(input, format, begun) {
            Ok(records) => Chunks::new(records, strict).send_to(&chunks),
            Err(error) => drop(chunks.blocking_send(Err(error))), // nobody listens once the import has ended
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
            let delivered = self.delivery.deliver(segment).await?;
            self.progress.advance(delivered.created, bytes.get());
            for rejected in &delivered.rejected {
                self.progress.note(&rejected.to_string());
                self.rejected += 1;
                if self.settings.strict {
                    return Err(self.ended_by_line(rejected).into());
                }
            }
        }
    }

    fn ended_by(&self, signal: &'static str) -> BulkError {
        let (last_line, import_id) = (self.delivery.last_line(), self.delivery.import_id().to_owned());
        BulkError::Ended { signal, last_line, import_id }
    }

    fn ended_by_line(&self, rejected: &Rejected) -> BulkError {
        BulkError::Strict { line: rejected.line, import_id: self.delivery.import_id().to_owned() }
    }

    fn report(&self) -> Result<(), CliError> {
        let (progress, delivery) = (&self.progress, &self.delivery);
        self.settings.output.print(
            || format!("{}\n", progress.summary("imported")),
            || {
                json!({
                    "importId": delivery.import_id(),
                    "created": progress.pets(),
                    "createdInAll": delivery.created_in_all(),
                    "rejected": self.rejected,
                    "lastLine": delivery.last_line(),
                    "seconds": progress.elapsed().as_secs_f64(),
                })
            },
        )?;
        match self.rejected {
            0 => Ok(()),
            rejected => Err(BulkError::Rejected(rejected).into()),
        }
    }
}
