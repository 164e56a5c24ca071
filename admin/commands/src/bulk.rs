//! Import and export of pets, in files of NDJSON or CSV.

pub(crate) mod export;
pub(crate) mod import;

use std::path::Path;

use indicatif::{HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle};
use petstore_command_line::output;
use petstore_core_client::CoreTransport;
use petstore_proto::v1::pet_store_client::PetStoreClient;
use petstore_settings::InvalidSetting;
use tokio::time::Instant;

use crate::core_target::ConnectedCore;

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

const REDRAW_A_SECOND: u8 = 5;
const BAR: &str = "{bar:30} {percent:>3} %  {msg}  {eta} left";
const SPINNER: &str = "{spinner} {msg}";

/// Progress bar on stderr if that is a terminal, otherwise nothing. Counts pets either way.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    pub(super) began: Instant,
    pub(super) pets: u64,
}

impl Progress {
    /// Creates a progress bar. It shows the remaining time if the number of bytes is known.
    pub(crate) fn new(bytes: Option<u64>) -> Self {
        let bar = match bytes {
            Some(bytes) => ProgressBar::new(bytes).with_style(style(BAR)),
            None => ProgressBar::new_spinner().with_style(style(SPINNER)),
        };
        bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(REDRAW_A_SECOND));
        Self { bar, began: Instant::now(), pets: 0 }
    }

    /// Adds pets to the count.
    pub(crate) fn advance(&mut self, pets: u64) {
        self.pets += pets;
        self.bar.set_message(format!("{} pets  {}/s", HumanCount(self.pets), HumanCount(self.rate())));
        self.bar.tick();
    }

    /// Prints a line above the bar.
    pub(crate) fn note(&self, note: &str) {
        self.bar.suspend(|| output::note(note));
    }

    /// Returns the rate in pets per second.
    fn rate(&self) -> u64 {
        let millis = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX).max(1);
        self.pets.saturating_mul(1_000) / millis
    }

    /// Returns a sentence about the result.
    pub(crate) fn summary(&self, done: &str) -> String {
        let (pets, secs) = (HumanCount(self.pets), self.began.elapsed().as_secs_f64());
        format!("{done} {pets} pets in {secs:.1} s ({} a second)", HumanCount(self.rate()))
    }
}

/// Returns the style of this template. A test checks that the templates above are valid.
fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
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

    #[test]
    fn the_templates_can_be_read() {
        for template in [BAR, SPINNER] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }

    #[tokio::test]
    async fn a_summary_counts_pets_with_or_without_a_terminal() {
        for bytes in [None, Some(10)] {
            let mut progress = Progress::new(bytes);
            progress.advance(1_200);
            progress.advance(34);
            progress.bar.finish_and_clear();
            assert_eq!(progress.pets, 1_234);
            assert!(progress.summary("imported").starts_with("imported 1,234 pets in "));
        }
    }
}
