//! `petstore import`: adds the pets of a file, each line once.

use std::{io, path::PathBuf, thread};

use serde_json::json;
use tokio::{runtime, sync::mpsc, task::spawn_blocking};

use crate::{
    bulk::{
        BulkError, ConnectedCore, Format, Progress,
        import::{Chunks, Delivery, Input, Records, Rejected, SEGMENT},
    },
    core_target::CoreTarget,
    error::CliError,
    output::{OutputSettings, command_log},
    process::signals::Signals,
    settings::CoreAddressSettings,
};

#[derive(Debug, clap::Args)]
pub(crate) struct ImportSettings {
    /// The file to import, or - for standard input; may be compressed with gzip
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// The format of the file. By default its extension decides, and standard input is ndjson
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: Option<Format>,

    /// Stop at the first line that is not allowed. By default such lines are reported and skipped
    #[arg(long)]
    strict: bool,

    /// The import's identifier: 1 to 200 visible ASCII characters. No line of an import is added twice. By
    /// default it is the SHA-256 of the file, or a new one for standard input
    #[arg(long, value_name = "ID")]
    import_id: Option<String>,

    #[command(flatten)]
    target: CoreTarget<CoreAddressSettings>,

    #[command(flatten)]
    output: OutputSettings,
}

pub(crate) fn run(settings: &ImportSettings) -> Result<(), CliError> {
    command_log();
    let format = Format::choose(settings.format, &settings.file)?;
    let runtime = runtime::Builder::new_current_thread().enable_all().build().map_err(CliError::runtime)?;
    let ended = runtime.block_on(import(settings, format));
    runtime.shutdown_background();
    ended
}

async fn import(settings: &ImportSettings, format: Format) -> Result<(), CliError> {
    let mut signals = Signals::listen().map_err(CliError::runtime)?;
    let core = ConnectedCore::open(&settings.target).await?;
    let (file, import_id) = (settings.file.clone(), settings.import_id.clone());
    let opened = spawn_blocking(move || Input::open(&file, import_id.as_deref())).await;
    let input = opened.map_err(|panic| CliError::runtime(io::Error::other(panic)))??;
    let mut work = Work {
        settings,
        progress: Progress::new(input.size),
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
        let begun = self.delivery.position().await?;
        if begun > 0 {
            self.progress.note(&format!("continuing after line {begun}"));
        }
        let bytes = input.read.clone();
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
