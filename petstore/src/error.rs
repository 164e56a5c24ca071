//! Errors of the commands, and their exit codes.

use std::{
    error::Error as _,
    fmt::Write as _,
    io,
    path::{Path, PathBuf},
    process::ExitCode,
};

use petstore_command_line::{
    RuntimeError,
    output::{self, Declined, PrintError},
};
use petstore_database::OpenError;
use petstore_settings::InvalidSetting;
use tonic::{Code, Status};

use crate::{core_target::CoreCallError, process::ProcessError};

/// Reason why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error(transparent)]
    Core(#[from] CoreCallError),
    #[error("--admin-url: nothing answers at {0} within 2 s; is the service running?")]
    AdminPort(String),
    #[error(transparent)]
    Bulk(#[from] BulkError),
    #[error(transparent)]
    Backup(#[from] BackupError),
    /// The data that would be lost was shown, and nothing was changed.
    #[error("nothing was changed; the same command with --yes reverts these changes and deletes their data")]
    NotConfirmed,
    /// A change that would shut operators out, and its consequence.
    #[error("{0}; add --force to confirm")]
    NotForced(String),
    #[error(transparent)]
    Print(#[from] PrintError),
    /// A key or token was created and could not be printed.
    #[error("cannot print the secret: {remedy}")]
    SecretNotShown { remedy: String, source: io::Error },
    /// An account that does not exist, and one whose name is similar.
    #[error("{source}; did you mean {meant}?")]
    UnknownAccount { source: CoreCallError, meant: String },
    #[error(transparent)]
    Declined(#[from] Declined),
    /// The process is not ready. The answer has been printed.
    #[error("the process is not ready for requests")]
    NotReady,
    /// No refusal was found. The answer has been printed.
    #[error("no such refusal is recorded")]
    NotFound,
    #[error("cannot write to {}", folder.display())]
    Write { folder: PathBuf, source: io::Error },
}

/// Reason why an import or export did not finish.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BulkError {
    #[error("cannot read {}", file.display())]
    Read { file: PathBuf, source: io::Error },
    #[error("cannot write {}", file.display())]
    Write { file: PathBuf, source: io::Error },
    /// The first row of a CSV file does not name the columns.
    #[error("the first line must name each column once, with name and categoryId among them")]
    Columns,
    #[error(
        "{} holds a JSON array, but import reads NDJSON, one JSON object a line: convert it with \
         `jq -c '.[]'`",
        file.display()
    )]
    Array { file: PathBuf },
    #[error(transparent)]
    Core(#[from] CoreCallError),
    #[error(
        "ended by {signal} after line {last_line}; continue with the same command and --import-id {import_id}"
    )]
    Ended { signal: &'static str, last_line: i64, import_id: String },
    #[error(
        "line {line} is invalid and ends the strict import; the lines before it are imported. Correct it and \
         continue with the same command and --import-id {import_id}"
    )]
    Strict { line: i64, import_id: String },
    #[error(
        "{} skipped; correct a copy of only these lines and import that: a corrected copy of the whole file \
         is another import, which adds its other pets again",
        invalid_lines(*.0)
    )]
    Rejected(u64),
}

/// Reason why a backup was not made, or not restored. Nothing was changed then.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BackupError {
    #[error("{} exists; --force replaces it", .0.display())]
    Exists(PathBuf),
    #[error("{} is the store itself", .0.display())]
    Itself(PathBuf),
    #[error("{} is in use: stop the service first", .0.display())]
    InUse(PathBuf),
    /// A log that SQLite would apply to the file.
    #[error(
        "{} is there, and SQLite would apply it to {}, to which it may not belong: move it away first",
        log.display(),
        file.display()
    )]
    Log { log: PathBuf, file: PathBuf },
    #[error("cannot read or write {}", file.display())]
    Io { file: PathBuf, source: io::Error },
    #[error("ended by {0}; nothing was changed")]
    Ended(&'static str),
}

impl BackupError {
    /// Returns a function that names the file of an error.
    pub(crate) fn io(file: &Path) -> impl Fn(io::Error) -> Self {
        move |source| Self::Io { file: file.to_owned(), source }
    }
}

fn invalid_lines(count: u64) -> String {
    if count == 1 { "1 invalid line was".to_owned() } else { format!("{count} invalid lines were") }
}

impl From<Status> for BulkError {
    fn from(status: Status) -> Self {
        Self::Core(status.into())
    }
}

impl From<OpenError> for CliError {
    fn from(error: OpenError) -> Self {
        ProcessError::from(error).into()
    }
}

impl From<RuntimeError> for CliError {
    fn from(error: RuntimeError) -> Self {
        ProcessError::from(error).into()
    }
}

impl From<Status> for CliError {
    fn from(status: Status) -> Self {
        Self::Core(status.into())
    }
}

impl From<InvalidSetting> for CliError {
    fn from(error: InvalidSetting) -> Self {
        ProcessError::from(error).into()
    }
}

impl CliError {
    /// Reports the error to the operator in one line, and to the caller by the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        output::note(&self.line());
        ExitCode::from(match self {
            Self::Process(ProcessError::Setting(_)) | Self::NotConfirmed => 2,
            Self::Core(error) if error.status().code() == Code::InvalidArgument => 2,
            Self::Core(error) if error.status().code() == Code::NotFound => 3,
            Self::UnknownAccount { .. } | Self::NotFound => 3,
            Self::Process(_)
            | Self::Core(_)
            | Self::AdminPort(_)
            | Self::Bulk(_)
            | Self::Backup(_)
            | Self::Print(_)
            | Self::SecretNotShown { .. }
            | Self::Declined(_)
            | Self::NotForced(_)
            | Self::NotReady
            | Self::Write { .. } => 1,
        })
    }

    /// Returns the error and those of its causes that it does not name itself.
    fn line(&self) -> String {
        let mut line = format!("error: {self}");
        let mut cause = self.source();
        while let Some(error) = cause {
            let text = error.to_string();
            if !line.contains(&text) {
                let _ = write!(line, ": {text}"); // cannot fail: the target is a String
            }
            cause = error.source();
        }
        output::without_number(&line.replace('\n', " "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_its_causes_in_one_line() {
        let error = CliError::Process(ProcessError::Runtime(io::Error::other("no\nthreads").into()));
        assert_eq!(error.line(), "error: cannot start the runtime: no threads");
    }
}
