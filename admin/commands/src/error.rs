//! Errors of the commands, and their exit codes.

use std::{error::Error as _, io, path::PathBuf};

use petstore_admin_web::admin_reason;
use petstore_command_line::{
    RuntimeError,
    output::{Declined, PrintError, with_causes},
    output_file::OutputFileError,
};
use petstore_core_client::failure_text;
use petstore_database::OpenError;
use petstore_settings::InvalidSetting;
use tonic::{Code, Status};

/// Reason why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// A setting cannot be used.
    #[error(transparent)]
    Setting(#[from] InvalidSetting),
    /// The store cannot be opened.
    #[error("--database-url: {0}")]
    Store(#[from] OpenError),
    /// The asynchronous runtime, or the handling of signals, cannot be started.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// The core refuses a call, or is unreachable. The details of the status are for programs, and are not
    /// shown.
    #[error("{}", text_of_core(.0))]
    Core(Box<Status>),
    /// A file or the standard input cannot be read.
    #[error("cannot read {}", file.display())]
    Read {
        /// Name of the file.
        file: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The file of an import has another form.
    #[error("{} {reason}", file.display())]
    Unreadable {
        /// Name of the file.
        file: PathBuf,
        /// Form that the file has instead, and the remedy.
        reason: String,
    },
    /// A failure, in the words for the person at the terminal.
    #[error("{0}")]
    Failed(String),
    /// An import that ended early, with the cause.
    #[error(
        "{}; {}, import the whole file with --import-id {import_id}",
        with_causes(cause),
        continuation(*.last_line)
    )]
    Incomplete {
        /// Cause of the end.
        cause: Box<CommandError>,
        /// Last line that is known to be imported.
        last_line: i64,
        /// Identifier of the import.
        import_id: String,
    },
    /// A strict import ended at an invalid line.
    #[error(
        "line {line} is invalid and ends the strict import; the lines before it are imported. Correct it and \
         continue with the same command and --import-id {import_id}"
    )]
    Strict {
        /// The invalid line.
        line: i64,
        /// Identifier of the import.
        import_id: String,
    },
    /// Number of invalid lines that an import has skipped.
    #[error(
        "{} skipped; correct a copy of only these lines and import that: a corrected copy of the whole file \
         is another import, which adds its other pets again",
        invalid_lines(*.0)
    )]
    Rejected(u64),
    /// The result cannot be printed.
    #[error(transparent)]
    Print(#[from] PrintError),
    /// A key or token was created and could not be printed.
    #[error("cannot print the secret: {remedy}")]
    SecretNotShown {
        /// Command that makes up for it.
        remedy: String,
        /// Error of stdout.
        source: io::Error,
    },
    /// The operator did not confirm.
    #[error(transparent)]
    Declined(#[from] Declined),
    /// An output must not or cannot be written.
    #[error(transparent)]
    Output(#[from] OutputFileError),
    /// The core does not know what was asked for, as this sentence says.
    #[error("{0}")]
    NotFound(String),
    /// A rotated key is still needed. The answer has been printed.
    #[error("the old key must not be revoked yet")]
    NotYetSafe,
}

impl CommandError {
    /// Returns `true` if the reader of the output is gone.
    pub fn is_broken_pipe(&self) -> bool {
        match self {
            Self::Print(error) => error.is_broken_pipe(),
            Self::Output(error) => error.is_broken_pipe(),
            _ => false,
        }
    }

    /// Returns the exit code: 2 for invalid arguments and settings, 3 for a missing object,
    /// 4 for a key that is still needed, otherwise 1.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Setting(_) => 2,
            Self::Core(status) if status.code() == Code::InvalidArgument => 2,
            Self::Core(status) if status.code() == Code::NotFound => 3,
            Self::NotFound(_) => 3,
            Self::NotYetSafe => 4,
            _ => 1,
        }
    }
}

impl From<Status> for CommandError {
    fn from(status: Status) -> Self {
        Self::Core(Box::new(status))
    }
}

/// Returns the text of a failed call to the core.
fn text_of_core(status: &Status) -> String {
    let text = failure_text(status);
    if status.source().is_some() {
        let hint = if text.contains("refused") { "; is `petstore core` running?" } else { "" };
        format!("cannot reach the core: {text}{hint}")
    } else if status.code() == Code::Unauthenticated && admin_reason(status).is_none() {
        // A core that asks for a certificate and for a token names what is missing.
        let settings = if text.contains("client certificate") {
            "its files are named by --core-cert and --core-key"
        } else {
            "its file is named by --service-token-file"
        };
        format!("{text}; {settings}")
    } else if status.code() == Code::Unimplemented {
        "the core lacks this method: upgrade it".to_owned() // 1.0.0 itself says nothing
    } else {
        let of_flag =
            FLAGS.iter().find_map(|(field, flag)| Some(flag.to_string() + text.strip_prefix(field)?));
        of_flag.unwrap_or(text)
    }
}

/// Begin of the core's messages about a parameter, and the flag that sets it.
const FLAGS: [(&str, &str); 11] = [
    ("allowedAddresses ", "--allowed-addresses "),
    ("by ", "--by "),
    ("byKey ", "--by-key "),
    ("days ", "--days "),
    ("duration ", "--for "),
    ("interval ", "--by "),
    ("keyId is for ", "--key is for "),
    ("keyId ", "the key's identifier "),
    ("requestId ", "the request's identifier "),
    ("startTime ", "--from "),
    ("ttl ", "--expires-in "),
];

fn continuation(last_line: i64) -> String {
    if last_line == 0 {
        "no line is known to be imported. To try again".to_owned()
    } else {
        format!("the lines up to {last_line} are imported. To continue there")
    }
}

fn invalid_lines(count: u64) -> String {
    if count == 1 { "1 invalid line was".to_owned() } else { format!("{count} invalid lines were") }
}
