//! Every way in which the program fails, and the exit code of each.

use std::{error::Error as _, fmt::Write as _, io, path::PathBuf, process::ExitCode};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use petstore_core::{
    domain::{AccountError, KeyId},
    store::OpenError,
};

use crate::{
    bulk::ExchangeError, commands::admin_client::RunningServiceError, os_error, output,
    process::first_key::FirstKeyError, settings::InvalidSetting,
};

/// Why a process of the service did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A setting cannot be used.
    #[error(transparent)]
    Setting(#[from] InvalidSetting),
    /// A port cannot be listened on.
    #[error("{setting}: cannot listen on {addr}: {reason}")]
    Listen {
        /// The flag that names the address.
        setting: &'static str,
        /// The address.
        addr: String,
        /// What the operating system says.
        reason: String,
    },
    /// The store cannot be opened.
    #[error("--database-url: {0}")]
    Store(#[from] OpenError),
    /// The first API key of a new store cannot be made, or not written down.
    #[error("cannot keep the first API key in {}", file.display())]
    FirstKey {
        /// The file that it belongs in.
        file: PathBuf,
        /// What failed.
        source: FirstKeyError,
    },
}

/// Why a verb failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The arguments or variables cannot be used; or help was asked for, which clap reports in the same way.
    #[error("the arguments cannot be used")]
    Arguments(#[from] clap::Error),
    #[error(transparent)]
    Start(#[from] StartError),
    #[error("cannot start the runtime")]
    Runtime(#[source] io::Error),
    #[error("{part} ended")]
    PartEnded { part: &'static str, source: Option<io::Error> },
    #[error("ended at once by a second signal")]
    Interrupted,
    #[error(transparent)]
    Accounts(#[from] AccountError),
    #[error(transparent)]
    RunningService(#[from] RunningServiceError),
    #[error(transparent)]
    Exchange(#[from] ExchangeError),
    /// What would be lost was shown, and nothing else was done.
    #[error(
        "nothing was changed: the same command with --yes takes these changes back, with the data in them"
    )]
    NotConfirmed,
    #[error("cannot print the result")]
    Print(#[source] io::Error),
    /// A key was made that nobody has seen.
    #[error("cannot print the key: revoke it with `petstore key revoke {id}`, and create another")]
    KeyNotShown { id: KeyId, source: io::Error },
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        Self::Start(error.into())
    }
}

impl From<InvalidSetting> for Failure {
    fn from(error: InvalidSetting) -> Self {
        Self::Start(error.into())
    }
}

impl Failure {
    /// Tells the operator in one line, and the caller by the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        match self {
            Self::Arguments(asked) if is_answer(asked) => {
                let _ = asked.print(); // to stdout or stderr; nothing depends on whether it is read
                ExitCode::from(if asked.use_stderr() { 2 } else { 0 })
            }
            Self::Arguments(error) => {
                output::note(&argument_line(error));
                ExitCode::from(2)
            }
            Self::Start(StartError::Setting(_)) | Self::NotConfirmed => {
                output::note(&self.line());
                ExitCode::from(2)
            }
            Self::Start(StartError::Listen { .. } | StartError::Store(_) | StartError::FirstKey { .. })
            | Self::Runtime(_)
            | Self::PartEnded { .. }
            | Self::Interrupted
            | Self::Accounts(_)
            | Self::RunningService(_)
            | Self::Exchange(_)
            | Self::Print(_)
            | Self::KeyNotShown { .. } => {
                output::note(&self.line());
                ExitCode::FAILURE
            }
        }
    }

    /// The failure and its causes, as far as it does not tell them itself.
    fn line(&self) -> String {
        let mut line = format!("error: {self}");
        let mut cause = self.source();
        while let Some(error) = cause {
            let text = error.to_string();
            if !line.contains(&text) {
                let _ = write!(line, ": {text}"); // cannot fail: it is a String
            }
            cause = error.source();
        }
        os_error::without_number(&line.replace('\n', " "))
    }
}

/// Whether it is help or the version rather than a failure.
fn is_answer(asked: &clap::Error) -> bool {
    matches!(
        asked.kind(),
        ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    )
}

/// What is wrong with the arguments, and what may have been meant, in one line.
fn argument_line(error: &clap::Error) -> String {
    let line = first_paragraph(&error.render().to_string());
    let kinds = [ContextKind::SuggestedSubcommand, ContextKind::SuggestedArg, ContextKind::SuggestedValue];
    let suggested: Vec<&str> = kinds
        .into_iter()
        .filter_map(|kind| error.get(kind))
        .flat_map(|suggested| match suggested {
            ContextValue::String(one) => std::slice::from_ref(one),
            ContextValue::Strings(several) => several,
            _ => &[],
        })
        .map(String::as_str)
        .collect();
    match (suggested.is_empty(), error.kind()) {
        (false, _) => format!("{line}; did you mean {}?", suggested.join(" or ")),
        (true, ErrorKind::InvalidSubcommand | ErrorKind::UnknownArgument) => {
            format!("{line}; see `petstore --help`")
        }
        (true, _) => line,
    }
}

/// What is wrong, without clap's usage lines, in one line.
fn first_paragraph(text: &str) -> String {
    let lines: Vec<_> = text.lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
    lines.join(" ")
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::Cli;

    fn line(args: &[&str]) -> String {
        argument_line(&Cli::try_parse_from(args).unwrap_err())
    }

    #[test]
    fn what_may_have_been_meant_is_told() {
        for (args, end) in [
            (["petstore", "serv"].as_slice(), "'serv'; did you mean serve?"),
            (&["petstore", "acount", "list"], "'acount'; did you mean account?"),
            (&["petstore", "account", "lst"], "'lst'; did you mean list?"),
            (&["petstore", "serve", "--htp-addr", "x"], "found; did you mean --http-addr?"),
            (&["petstore", "account", "create", "a", "--plan", "fre"], "; did you mean free?"),
            (&["petstore", "zzz"], "'zzz'; see `petstore --help`"),
        ] {
            assert!(line(args).ends_with(end), "{args:?}: {}", line(args));
        }
    }

    #[test]
    fn what_is_wrong_with_an_argument_is_said_in_one_line_that_names_it() {
        let line = line(&["petstore", "serve", "--http-addr", "8080"]);
        assert_eq!(
            line,
            "error: invalid value '8080' for '--http-addr <ADDR>': must be an address and a port, such as \
             127.0.0.1:8080, [::1]:8080 or localhost:8080"
        );
    }

    #[test]
    fn missing_arguments_are_named_in_one_line() {
        let line = line(&["petstore", "key", "create"]);
        assert_eq!(line, "error: the following required arguments were not provided: --account <NAME>");
    }

    #[test]
    fn a_failure_is_told_with_its_causes() {
        let failure = Failure::Runtime(io::Error::other("no\nthreads"));
        assert_eq!(failure.line(), "error: cannot start the runtime: no threads");
    }
}
