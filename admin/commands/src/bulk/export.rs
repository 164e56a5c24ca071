//! `petstore export`: writes the pets to a file, in constant memory.

use std::{
    fs::File,
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use flate2::{Compression, write::GzEncoder};
use petstore_command_line::{
    RuntimeError,
    partial_file::{Mode, PartialFile},
};
use petstore_core_client::CoreTransport;
use petstore_gateway::bulk;
use petstore_proto::v1::{ListPetsRequest, Pet, PetStatus, pet_store_client::PetStoreClient};
use petstore_settings::CoreAddressSettings;
use tokio::{sync::mpsc, task::spawn_blocking};

use super::{Format, Progress, client, is_gzip, is_standard};
use crate::{
    core_target::{CoreTarget, block_on},
    error::{BulkError, CommandError},
};

/// Largest page of the core.
const PAGE_SIZE: i32 = 100;
/// Maximum number of pages that wait to be written.
const QUEUED_PAGES: usize = 16;

#[derive(Debug, clap::Args)]
pub struct ExportSettings {
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

pub(crate) fn run(settings: &ExportSettings) -> Result<(), CommandError> {
    let format = Format::choose(settings.format, &settings.file)?;
    block_on(Box::pin(export(settings, format)))
}

async fn export(settings: &ExportSettings, format: Format) -> Result<(), CommandError> {
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
    let written = writing.await.map_err(|panic| RuntimeError(io::Error::other(panic)));
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

/// A part of the file.
enum Part {
    Bytes(Vec<u8>),
    /// End of a complete export. Without it the file is incomplete.
    End,
}

/// Output of an export.
struct OutputFile {
    to: Box<dyn Sink>,
    file: PathBuf,
    /// The file, unless it is standard output.
    partial: Option<PartialFile>,
}

/// Destination of the bytes.
trait Sink: Write {
    /// Writes what is buffered.
    fn finish(&mut self) -> io::Result<()>;
}

impl Sink for io::Stdout {
    fn finish(&mut self) -> io::Result<()> {
        self.flush()
    }
}

impl Sink for File {
    fn finish(&mut self) -> io::Result<()> {
        self.flush()
    }
}

impl<S: Sink> Sink for BufWriter<S> {
    fn finish(&mut self) -> io::Result<()> {
        self.flush()?;
        self.get_mut().finish()
    }
}

impl<S: Sink> Sink for GzEncoder<S> {
    fn finish(&mut self) -> io::Result<()> {
        self.try_finish()?;
        self.get_mut().finish()
    }
}

impl OutputFile {
    fn create(file: &Path) -> Result<Self, BulkError> {
        if is_standard(file) {
            let to = BufWriter::with_capacity(BUFFER, io::stdout());
            return Ok(Self { to: Box::new(to), file: file.to_owned(), partial: None });
        }
        let failed = |source| BulkError::Write { file: file.to_owned(), source };
        let partial = PartialFile::create(file, Mode::OfUmask).map_err(failed)?;
        let open = partial.file().try_clone().map_err(failed)?;
        let open = BufWriter::with_capacity(BUFFER, open);
        let to: Box<dyn Sink> = if is_gzip(file) {
            Box::new(GzEncoder::new(open, Compression::default()))
        } else {
            Box::new(open)
        };
        Ok(Self { to, file: file.to_owned(), partial: Some(partial) })
    }

    /// Writes the parts as they arrive. If the last is not [`Part::End`], the file is removed.
    fn write(mut self, mut parts: mpsc::Receiver<Part>) -> Result<(), BulkError> {
        let written = self.try_write(&mut parts).and_then(|is_complete| match self.partial {
            Some(partial) if is_complete => partial.complete(),
            _ => Ok(()),
        });
        written.map_err(|source| BulkError::Write { file: self.file, source })
    }

    /// Writes the parts, and returns `true` if [`Part::End`] arrived.
    fn try_write(&mut self, parts: &mut mpsc::Receiver<Part>) -> io::Result<bool> {
        while let Some(part) = parts.blocking_recv() {
            match part {
                Part::Bytes(bytes) => self.to.write_all(&bytes)?,
                Part::End => return self.to.finish().map(|()| true),
            }
        }
        Ok(false)
    }
}
