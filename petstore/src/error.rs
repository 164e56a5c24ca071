//! Errors of the commands, and their exit codes.

use std::{
    io,
    path::{Path, PathBuf},
    process::ExitCode,
};

use petstore_admin_check::CheckError;
use petstore_admin_commands::CommandError;
use petstore_command_line::{
    RuntimeError,
    output::{self, PrintError},
    output_file::OutputFileError,
};
use petstore_database::OpenError;
use petstore_settings::InvalidSetting;

use crate::{process::ProcessError, variables::name_variables};

/// Reason why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error(transparent)]
    Setting(#[from] InvalidSetting),
    #[error("--database-url: {0}")]
    Store(#[from] OpenError),
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    #[error(transparent)]
    Command(#[from] CommandError),
    #[error("--admin-url: nothing answers at {0} within 2 s; is the service running?")]
    AdminPort(String),
    #[error("{} is the store itself", .0.display())]
    BackupOfItself(PathBuf),
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
    File { file: PathBuf, source: io::Error },
    #[error("ended by {0}; nothing was changed")]
    Ended(&'static str),
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
    /// An environment variable cannot be used.
    #[error("{0}")]
    Variable(String),
    #[error(transparent)]
    Check(#[from] CheckError),
    #[error(transparent)]
    Output(#[from] OutputFileError),
}

impl CliError {
    /// Returns a function that names the file of an error.
    pub(crate) fn file(file: &Path) -> impl Fn(io::Error) -> Self {
        move |source| Self::File { file: file.to_owned(), source }
    }

    /// Reports the error to the operator in one line, and to the caller by the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        /// Exit code that a shell reports for a program that SIGPIPE ends, which is silent too.
        const BROKEN_PIPE: u8 = 141;
        let is_broken_pipe = match self {
            Self::Print(error) => error.is_broken_pipe(),
            Self::Output(error) => error.is_broken_pipe(),
            Self::Command(error) => error.is_broken_pipe(),
            _ => false,
        };
        if is_broken_pipe {
            return ExitCode::from(BROKEN_PIPE);
        }
        output::note(&self.line());
        ExitCode::from(match self {
            Self::Process(ProcessError::Setting(_))
            | Self::Setting(_)
            | Self::Variable(_)
            | Self::NotConfirmed => 2,
            Self::Command(error) => error.exit_code(),
            Self::ContractBroken(_) => 4,
            Self::Process(_)
            | Self::Store(_)
            | Self::Runtime(_)
            | Self::AdminPort(_)
            | Self::BackupOfItself(_)
            | Self::InUse(_)
            | Self::Log { .. }
            | Self::File { .. }
            | Self::Ended(_)
            | Self::Print(_)
            | Self::NotReady
            | Self::Check(_)
            | Self::Output(_) => 1,
        })
    }

    /// Returns the error and its causes in one line.
    fn line(&self) -> String {
        let line = format!("error: {}", output::with_causes(self));
        output::without_number(&name_variables(&line.replace('\n', " ")))
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
