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
    Copy(OpenError),
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    #[error(transparent)]
    Command(#[from] CommandError),
    /// A failure of a command, in the words for its user.
    #[error("{0}")]
    Failed(String),
    /// A command or variable that cannot be used as it is, in the words for its user. Nothing was done.
    #[error("{0}")]
    Refused(String),
    #[error("cannot read or write {}", file.display())]
    File { file: PathBuf, source: io::Error },
    #[error(transparent)]
    Print(#[from] PrintError),
    /// The service does not keep the contract. The result has been printed.
    #[error("the service does not keep the contract; broken clauses: {0}")]
    ContractBroken(usize),
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
            Self::Process(ProcessError::Setting(_)) | Self::Setting(_) | Self::Refused(_) => 2,
            Self::Command(error) => error.exit_code(),
            Self::ContractBroken(_) => 4,
            _ => 1,
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
