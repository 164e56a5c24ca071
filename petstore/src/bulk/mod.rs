//! Import and export of pets: the formats of files, the target, the progress, and each direction's steps.

pub(crate) mod export;
mod format;
pub(crate) mod import;
mod lines;
mod progress;
mod target;

pub(crate) use self::{
    format::{Format, is_gzip, is_standard},
    lines::{Line, Lines, MAX_LINE},
    progress::Progress,
    target::{Core, Target},
};

use std::{error::Error as _, io, path::PathBuf};

use petstore_gateway::core_client::failure_text;
use tonic::Status;

/// Why an import or an export ended before its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BulkError {
    #[error("cannot read {}", file.display())]
    Read { file: PathBuf, source: io::Error },
    #[error("cannot write {}", file.display())]
    Write { file: PathBuf, source: io::Error },
    /// The table does not say what its columns are.
    #[error("the first line must name the columns, name and categoryId among them, each once")]
    Columns,
    #[error(
        "{} holds a JSON array, and import reads NDJSON: one JSON object a line, as `jq -c '.[]'` makes them of an array",
        file.display()
    )]
    Array { file: PathBuf },
    /// The status is not shown with its details: those are for programs.
    #[error("{}", core_failure(.0))]
    Core(Box<Status>),
    #[error(
        "ended by {signal} after line {last_line}: the same command with --import-id {import_id} goes on"
    )]
    Ended { signal: &'static str, last_line: i64, import_id: String },
    #[error(
        "line {line} is not allowed, and ends a strict import; those before it are imported. Once it is corrected, \
         the same command with --import-id {import_id} goes on"
    )]
    Strict { line: i64, import_id: String },
    #[error("lines that are not imported: {0}")]
    Rejected(u64),
}

fn core_failure(status: &Status) -> String {
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
