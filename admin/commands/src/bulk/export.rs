//! `petstore export`: writes the pets to a file, in constant memory.

use std::{
    io::{self, BufWriter, IsTerminal as _, Write},
    path::PathBuf,
};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use flate2::{Compression, write::GzEncoder};
use indicatif::ProgressDrawTarget;
use petstore_command_line::{
    RuntimeError, Signals,
    output::PrintError,
    output_file::{OutputFile, OutputKind},
};
use petstore_core_client::CoreTransport;
use petstore_gateway::pets;
use petstore_proto::v1::{ListPetsRequest, Pet, PetStatus, pet_store_client::PetStoreClient};
use petstore_settings::CoreAddressSettings;
use tokio::{sync::mpsc, task::spawn_blocking};

use super::{Format, Progress, client, is_gzip, is_standard};
use crate::{
    core_target::{CoreTarget, block_on},
    error::CommandError,
};

/// Largest page of the core.
const PAGE_SIZE: i32 = 100;
/// Maximum number of pages that wait to be written.
const QUEUED_PAGES: usize = 16;

#[derive(Debug, clap::Args)]
pub struct ExportSettings {
    /// File to write, compressed with gzip if its name ends in .gz, or - for standard output. It appears
    /// under its name only when complete; a device or pipe is written into
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,

    /// Replace FILE if it exists
    #[arg(long)] // no variable: it must be given each time
    force: bool,

    /// Format of the file. By default its extension decides, and standard output is ndjson
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: Option<Format>,

    /// Status of the pets to export; by default all pets
    #[arg(long, value_parser = status_parser(), value_name = "STATUS")]
    status: Option<PetStatus>,

    #[command(flatten)]
    target: CoreTarget<CoreAddressSettings>,
}

/// Returns the parser of a status, as on REST.
fn status_parser() -> impl TypedValueParser<Value = PetStatus> {
    PossibleValuesParser::new(["available", "pending", "sold"]).map(|word| {
        let name = format!("PET_STATUS_{}", word.to_uppercase());
        PetStatus::from_str_name(&name).unwrap_or_default() // each of the words is the name of one
    })
}

pub(crate) fn export_pets(settings: &ExportSettings) -> Result<(), CommandError> {
    let format = Format::choose(settings.format, &settings.file)?;
    block_on(Box::pin(export(settings, format)))
}

async fn export(settings: &ExportSettings, format: Format) -> Result<(), CommandError> {
    let mut signals = Signals::listen()?;
    let mut progress = Progress::new(None);
    if is_standard(&settings.file) && io::stdout().is_terminal() {
        progress.bar.set_draw_target(ProgressDrawTarget::hidden()); // it would stand among the pets
    }
    let ended = tokio::select! {
        ended = export_all(settings, format, &mut progress) => ended,
        signal = signals.received() => Err(CommandError::Failed(format!("ended by {signal}"))),
    };
    progress.bar.finish_and_clear();
    ended?;
    if !is_standard(&settings.file) {
        progress.note(&progress.summary("exported"));
    }
    Ok(())
}

async fn export_all(
    settings: &ExportSettings,
    format: Format,
    progress: &mut Progress,
) -> Result<(), CommandError> {
    let ExportSettings { file, force, .. } = settings;
    let (is_gzip, (pages, queue)) = (is_gzip(file), mpsc::channel(QUEUED_PAGES));
    let output = if is_standard(file) { None } else { Some(open(file.clone(), *force).await?) };
    let core = settings.target.connect().await?;
    let writing = match &output {
        None => spawn_blocking(move || write(io::stdout(), is_gzip, queue)),
        Some(output) => {
            let file = output.file().try_clone().map_err(|error| output.error(error))?;
            spawn_blocking(move || write(file, is_gzip, queue))
        }
    };
    let read = read(settings, format, client(&core), &pages, progress).await;
    drop(pages);
    let written = writing.await.map_err(|panic| RuntimeError(io::Error::other(panic)))?;
    core.close().await;
    read?;
    match output {
        None => Ok(written.map_err(PrintError)?),
        Some(output) => {
            written.map_err(|error| output.error(error))?;
            Ok(output.complete()?)
        }
    }
}

/// Opens the file, and waits for the reader of a pipe.
async fn open(file: PathBuf, force: bool) -> Result<OutputFile, CommandError> {
    let opened = spawn_blocking(move || OutputFile::create(&file, OutputKind::Text, force)).await;
    Ok(opened.map_err(|panic| RuntimeError(io::Error::other(panic)))??)
}

/// Reads page after page, until the last one or until the writer has failed.
async fn read(
    settings: &ExportSettings,
    format: Format,
    mut client: PetStoreClient<CoreTransport>,
    pages: &mpsc::Sender<Vec<u8>>,
    progress: &mut Progress,
) -> Result<(), CommandError> {
    let status = settings.status.unwrap_or_default().into();
    let mut page_token = String::new();
    let mut bytes = head(format);
    loop {
        let page = client
            .list_pets(ListPetsRequest { page_size: PAGE_SIZE, page_token, status })
            .await?
            .into_inner();
        for pet in &page.pets {
            append(&mut bytes, pet, format);
        }
        if pages.send(std::mem::take(&mut bytes)).await.is_err() {
            return Ok(()); // the writer reports why
        }
        progress.advance(page.pets.len() as u64);
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return Ok(());
        }
    }
}

/// Returns the text before the first row.
fn head(format: Format) -> Vec<u8> {
    match format {
        Format::Ndjson => Vec::new(),
        Format::Csv => format!("id,{}\r\n", pets::COLUMNS.join(",")).into_bytes(),
    }
}

/// Adds the pet's line.
fn append(file: &mut Vec<u8>, pet: &Pet, format: Format) {
    match format {
        Format::Ndjson => {
            file.extend(pets::to_json(pet));
            file.push(b'\n');
        }
        Format::Csv => {
            let row = pets::to_cells(pet).map(|cell| quoted(&cell)).join(",");
            file.extend(row.into_bytes());
            file.extend(b"\r\n");
        }
    }
}

/// Returns the file that these pets are exported to.
#[cfg(feature = "fuzzing")]
pub fn fuzz_export(pets: &[Pet], is_csv: bool) -> Vec<u8> {
    let format = if is_csv { Format::Csv } else { Format::Ndjson };
    let mut file = head(format);
    for pet in pets {
        append(&mut file, pet, format);
    }
    file
}

/// Returns the cell, in quotes where RFC 4180 requires them.
fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\r', '\n']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}

const BUFFER: usize = 128 * 1024;

/// Writes the parts as they arrive, compressed if the file's name says so.
fn write(to: impl Write, is_gzip: bool, parts: mpsc::Receiver<Vec<u8>>) -> io::Result<()> {
    let mut to = BufWriter::with_capacity(BUFFER, to);
    if is_gzip {
        let mut to = GzEncoder::new(to, Compression::default());
        write_parts(&mut to, parts)?;
        to.finish()?.flush()
    } else {
        write_parts(&mut to, parts)?;
        to.flush()
    }
}

fn write_parts(to: &mut impl Write, mut parts: mpsc::Receiver<Vec<u8>>) -> io::Result<()> {
    while let Some(bytes) = parts.blocking_recv() {
        to.write_all(&bytes)?;
    }
    Ok(())
}
