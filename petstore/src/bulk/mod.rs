//! Import and export of pets: file formats, the target, progress, and the steps of each direction.

pub(crate) mod export;
mod format;
pub(crate) mod import;
mod progress;
mod target;

pub(crate) use self::{
    format::{Format, is_gzip, is_standard},
    progress::Progress,
    target::{Core, Target},
};

use std::{error::Error as _, io, path::PathBuf};

use petstore_gateway::core_client::failure_text;
use tonic::Status;

/// Why an import or export did not finish.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BulkError {
    #[error("cannot read {}", file.display())]
    Read { file: PathBuf, source: io::Error },
    #[error("cannot write {}", file.display())]
    Write { file: PathBuf, source: io::Error },
    /// The first row of a CSV file does not name the columns.
    #[error("the first line must name the columns, name and categoryId among them, each once")]
    Columns,
    #[error(
        "{} holds a JSON array, and import reads NDJSON: one JSON object a line, as `jq -c '.[]'` makes \
         them of an array",
        file.display()
    )]
    Array { file: PathBuf },
    /// The details of the status are for programs, and are not shown.
    #[error("{}", core_error_text(.0))]
    Core(Box<Status>),
    #[error(
        "ended by {signal} after line {last_line}: continue with the same command and --import-id {import_id}"
    )]
    Ended { signal: &'static str, last_line: i64, import_id: String },
    #[error(
        "line {line} is not allowed, and ends a strict import; those before it are imported. Correct it, and \
         continue with the same command and --import-id {import_id}"
    )]
    Strict { line: i64, import_id: String },
    #[error("lines that were not imported: {0}")]
    Rejected(u64),
}

fn core_error_text(status: &Status) -> String {
    let text = failure_text(status);
    if status.source().is_some() {
        format!("cannot reach the core: {text}; is `petstore core` running?")
    } else {
        text
    }
}

impl From<Status> for BulkError {
    fn from(status: Status) -> Self {
        Self::Core(Box::new(status))
    }
}
