//! Errors of the commands, and their exit codes.

use std::{
    error::Error as _,
    fmt::Write as _,
    io,
    path::{Path, PathBuf},
    process::ExitCode,
};

use petstore_admin_check::CheckError;
use petstore_admin_commands::CommandError;
use petstore_command_line::{
    RuntimeError,
    output::{self, PrintError},
};
use petstore_database::OpenError;
use petstore_settings::InvalidSetting;

use crate::process::ProcessError;

/// Reason why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error(transparent)]
    Command(#[from] CommandError),
    #[error("--admin-url: nothing answers at {0} within 2 s; is the service running?")]
    AdminPort(String),
    #[error(transparent)]
    Backup(#[from] BackupError),
    /// The data that would be lost was shown, and nothing was changed.
    #[error("nothing was changed; with --yes, this command reverts these changes and deletes their data")]
    NotConfirmed,
    #[error(transparent)]
    Print(#[from] PrintError),
    /// The process is not ready. The answer has been printed.
    #[error("the process is not ready for requests")]
    NotReady,
    /// The service does not keep the contract. The result has been printed.
    #[error("the service does not keep the contract; broken clauses: {0}")]
    ContractBroken(usize),
    #[error(transparent)]
    Check(#[from] CheckError),
    #[error("cannot write to {}", folder.display())]
    Write { folder: PathBuf, source: io::Error },
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
            Self::Command(error) => error.exit_code(),
            Self::ContractBroken(_) => 4,
            Self::Process(_)
            | Self::AdminPort(_)
            | Self::Backup(_)
            | Self::Print(_)
            | Self::NotReady
            | Self::Check(_)
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
