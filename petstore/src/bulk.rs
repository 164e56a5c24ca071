//! Import and export of pets, in files of NDJSON or CSV.

pub(crate) mod export;
pub(crate) mod import;
mod progress;

use std::path::Path;

use petstore_gateway::core_client::CoreTransport;
use petstore_proto::v1::pet_store_client::PetStoreClient;

use crate::{core_target::ConnectedCore, settings::InvalidSetting};

/// Limit of a message in bytes, above the largest message of a core.
const MAX_MESSAGE: usize = 4 * 1024 * 1024;

fn client(core: &ConnectedCore) -> PetStoreClient<CoreTransport> {
    PetStoreClient::new(core.transport.clone())
        .max_decoding_message_size(MAX_MESSAGE)
        .max_encoding_message_size(MAX_MESSAGE)
}

/// Format of a file of pets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// A JSON object per line, as on REST
    Ndjson,
    /// CSV (RFC 4180), whose first line names the columns, as JSON names the members of a pet
    Csv,
}

impl Format {
    /// Returns the requested format, otherwise that of the file's extension, before `.gz`. Standard input and
    /// output are NDJSON.
    fn choose(requested: Option<Self>, file: &Path) -> Result<Self, InvalidSetting> {
        if let Some(requested) = requested {
            return Ok(requested);
        }
        if is_standard(file) {
            return Ok(Self::Ndjson);
        }
        let file = if is_gzip(file) { file.with_extension("") } else { file.to_owned() };
        match extension(&file).as_deref() {
            Some("ndjson" | "jsonl" | "json") => Ok(Self::Ndjson),
            Some("csv") => Ok(Self::Csv),
            _ => Err(InvalidSetting::new("--format", "is required for a file not named .ndjson or .csv")),
        }
    }
}

/// Returns `true` if the name is `-`: standard input or output.
fn is_standard(file: &Path) -> bool {
    file.as_os_str() == "-"
}

/// Returns `true` if the file's extension is that of gzip.
fn is_gzip(file: &Path) -> bool {
    extension(file).as_deref() == Some("gz")
}

fn extension(file: &Path) -> Option<String> {
    Some(file.extension()?.to_str()?.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_extension_decides_the_format_unless_one_is_requested() {
        for (file, format) in [
            ("pets.ndjson", Format::Ndjson),
            ("pets.jsonl.gz", Format::Ndjson),
            ("a.b/pets.CSV", Format::Csv),
            ("pets.csv.GZ", Format::Csv),
            ("-", Format::Ndjson),
        ] {
            assert_eq!(Format::choose(None, Path::new(file)).unwrap(), format, "{file}");
        }
        for file in ["pets", "pets.gz", "pets.xml", ".csv"] {
            assert!(Format::choose(None, Path::new(file)).is_err(), "{file}");
            assert_eq!(Format::choose(Some(Format::Csv), Path::new(file)).unwrap(), Format::Csv);
        }
    }
}
