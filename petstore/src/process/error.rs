//! Reasons why a process of the service did not start, or ended other than by a signal.

use std::{io, path::PathBuf};

use petstore_core::store::OpenError;

use super::first_secrets::FirstSecretError;
use crate::settings::InvalidSetting;

/// Reason why a process of the service did not start.
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
        /// Error of the operating system.
        reason: String,
    },
    /// The store cannot be opened.
    #[error("--database-url: {0}")]
    Store(#[from] OpenError),
    /// The first API key or operator token of a new store cannot be created or written.
    #[error("cannot keep the first {what} in {}", file.display())]
    FirstSecret {
        /// Name of the secret.
        what: &'static str,
        /// The file that it belongs in.
        file: PathBuf,
        /// Cause of the failure.
        source: FirstSecretError,
    },
}

/// Reason why a process of the service failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProcessError {
    #[error(transparent)]
    Start(#[from] StartError),
    #[error("cannot start the runtime")]
    Runtime(#[source] io::Error),
    #[error("{part} ended")]
    PartEnded { part: &'static str, source: Option<io::Error> },
    #[error("ended at once by a second signal")]
    Interrupted,
}

impl From<InvalidSetting> for ProcessError {
    fn from(error: InvalidSetting) -> Self {
        Self::Start(error.into())
    }
}
