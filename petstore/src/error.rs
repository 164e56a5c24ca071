//! Errors of the verbs, and their exit codes.

use std::{error::Error as _, fmt::Write as _, io, path::PathBuf, process::ExitCode};

use petstore_core::store::OpenError;
use tonic::{Code, Status};

use crate::{
    bulk::BulkError,
    core_target::CoreCallError,
    os_error,
    output::{self, Declined, PrintError},
    process::{AdminPortError, ProcessError, StartError},
    settings::InvalidSetting,
};

/// Reason why a verb failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error(transparent)]
    Core(#[from] CoreCallError),
    #[error(transparent)]
    AdminPort(#[from] AdminPortError),
    #[error(transparent)]
    Bulk(#[from] BulkError),
    /// The data that would be lost was shown, and nothing was changed.
    #[error(
        "nothing was changed: the same command with --yes takes these changes back, with the data in them"
    )]
    NotConfirmed,
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
    #[error("no such refusal is kept")]
    NotFound,
    #[error("cannot write to {}", folder.display())]
    Write { folder: PathBuf, source: io::Error },
}

impl From<StartError> for CliError {
    fn from(error: StartError) -> Self {
        Self::Process(error.into())
    }
}

impl From<OpenError> for CliError {
    fn from(error: OpenError) -> Self {
        StartError::from(error).into()
    }
}

impl From<Status> for CliError {
    fn from(status: Status) -> Self {
        Self::Core(status.into())
    }
}

impl From<InvalidSetting> for CliError {
    fn from(error: InvalidSetting) -> Self {
        StartError::from(error).into()
    }
}

impl CliError {
    pub(crate) fn runtime(error: io::Error) -> Self {
        Self::Process(ProcessError::Runtime(error))
    }

    /// Reports the error to the operator in one line, and to the caller by the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        output::note(&self.line());
        match self {
            Self::Process(ProcessError::Start(StartError::Setting(_))) | Self::NotConfirmed => {
                ExitCode::from(2)
            }
            Self::Core(error) if error.status().code() == Code::InvalidArgument => ExitCode::from(2),
            Self::Core(error) if error.status().code() == Code::NotFound => ExitCode::from(3),
            Self::UnknownAccount { .. } | Self::NotFound => ExitCode::from(3),
            Self::Process(_)
            | Self::Core(_)
            | Self::AdminPort(_)
            | Self::Bulk(_)
            | Self::Print(_)
            | Self::SecretNotShown { .. }
            | Self::Declined(_)
            | Self::NotReady
            | Self::Write { .. } => ExitCode::FAILURE,
        }
    }

    /// Returns the error and its causes, as far as it does not name them itself.
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
        os_error::without_number(&line.replace('\n', " "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_shown_with_its_causes() {
        let error = CliError::runtime(io::Error::other("no\nthreads"));
        assert_eq!(error.line(), "error: cannot start the runtime: no threads");
    }
}
