//! Import and export of pets: file formats, the target, progress, and the steps of each direction.

pub(crate) mod export;
mod format;
pub(crate) mod import;
mod progress;

pub(crate) use self::{
    format::{Format, is_gzip, is_standard},
    progress::Progress,
};

use std::{io, path::PathBuf};

use petstore_gateway::core_client::CoreTransport;
use petstore_proto::v1::pet_store_client::PetStoreClient;
use tonic::Status;

use crate::{
    core_target::{CoreCallError, CoreTarget, LocalCore},
    process::StartError,
    settings::CoreAddressSettings,
};

/// Limit of a message in bytes, above the largest message of a core.
const MAX_MESSAGE: usize = 4 * 1024 * 1024;

/// Reason why an import or export did not finish.
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
    #[error(transparent)]
    Core(#[from] CoreCallError),
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

impl From<Status> for BulkError {
    fn from(status: Status) -> Self {
        Self::Core(status.into())
    }
}

/// Core that an import or export calls.
#[derive(Debug)]
pub(crate) struct ConnectedCore {
    pub(crate) client: PetStoreClient<CoreTransport>,
    /// Local core, if the core is in this process.
    local: Option<LocalCore>,
}

impl ConnectedCore {
    pub(crate) async fn open(target: &CoreTarget<CoreAddressSettings>) -> Result<Self, StartError> {
        let (transport, local) = match target {
            CoreTarget::Remote(settings) => (settings.connect()?, None),
            CoreTarget::Store(settings) => {
                let local = LocalCore::open(settings).await?;
                (local.transport(), Some(local))
            }
        };
        let client = PetStoreClient::new(transport)
            .max_decoding_message_size(MAX_MESSAGE)
            .max_encoding_message_size(MAX_MESSAGE);
        Ok(Self { client, local })
    }

    /// Closes the store, if the core is in this process.
    pub(crate) async fn close(self) {
        if let Some(local) = self.local {
            local.close().await;
        }
    }
}
