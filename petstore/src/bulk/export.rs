//! `petstore export`: writes the pets to a file, in constant memory.

mod output;

use std::{io, path::PathBuf};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use petstore_gateway::{bulk, core_client::CoreTransport};
use petstore_proto::v1::{ListPetsRequest, Pet, PetStatus, pet_store_client::PetStoreClient};
use tokio::{sync::mpsc, task::spawn_blocking};

use self::output::{OutputFile, Part};
use super::{Format, client, is_standard, progress::Progress};
use crate::{
    core_target::{CoreTarget, block_on},
    error::{BulkError, CliError},
    process::ProcessError,
    settings::CoreAddressSettings,
};

/// Largest page of the core.
const PAGE_SIZE: i32 = 100;
/// Maximum number of pages that wait to be written.
const QUEUED_PAGES: usize = 16;

#[derive(Debug, clap::Args)]
pub(crate) struct ExportSettings {
    /// File to write, compressed with gzip if its name ends in .gz, or - for standard output. It gets its
    /// name once it is complete
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,

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

pub(crate) fn run(settings: &ExportSettings) -> Result<(), CliError> {
    let format = Format::choose(settings.format, &settings.file)?;
    block_on(Box::pin(export(settings, format)))
}

async fn export(settings: &ExportSettings, format: Format) -> Result<(), CliError> {
    let core = settings.target.connect().await?;
    let mut progress = Progress::new(None);
    let (pages, queue) = mpsc::channel(QUEUED_PAGES);
    let file = settings.file.clone();
    let writing = spawn_blocking(move || OutputFile::create(&file)?.write(queue));
    let read = read(settings, format, client(&core), &pages, &mut progress).await;
    if read.is_ok() {
        let _ = pages.send(Part::End).await; // if the writer has failed, that is reported below
    }
    drop(pages);
    let written = writing.await.map_err(|panic| ProcessError::Runtime(io::Error::other(panic)));
    progress.end();
    core.close().await;
    read?;
    written??;
    if !is_standard(&settings.file) {
        progress.note(&progress.summary("exported"));
    }
    Ok(())
}

/// Reads page after page, until the last one or until the writer has failed.
async fn read(
    settings: &ExportSettings,
    format: Format,
    mut client: PetStoreClient<CoreTransport>,
    pages: &mpsc::Sender<Part>,
    progress: &mut Progress,
) -> Result<(), BulkError> {
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
        if pages.send(Part::Bytes(std::mem::take(&mut bytes))).await.is_err() {
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
        Format::Csv => format!("id,{}\r\n", bulk::COLUMNS.join(",")).into_bytes(),
    }
}

/// Adds the pet's line.
fn append(file: &mut Vec<u8>, pet: &Pet, format: Format) {
    match format {
        Format::Ndjson => {
            file.extend(bulk::to_json(pet));
            file.push(b'\n');
        }
        Format::Csv => {
            let row = bulk::to_cells(pet).map(|cell| quoted(&cell)).join(",");
            file.extend(row.into_bytes());
            file.extend(b"\r\n");
        }
    }
}

/// Returns the file that these pets are exported to.
#[cfg(feature = "fuzzing")]
#[must_use]
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
