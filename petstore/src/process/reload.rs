//! Certificates and tokens that are read again on SIGHUP.

use std::{fmt, sync::Arc};

use tokio::task::spawn_blocking;

/// Reads a part's files again and uses them. Returns the reason if they cannot be used, and then changes
/// nothing.
type Read = dyn Fn() -> Result<(), String> + Send + Sync;

/// Parts whose files can be read again while the process serves.
#[derive(Default)]
pub(crate) struct Reloads(Vec<(&'static str, Arc<Read>)>);

impl Reloads {
    /// Adds a part, by the name of its files.
    pub(crate) fn add(
        &mut self,
        files: &'static str,
        read: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) {
        self.0.push((files, Arc::new(read)));
    }

    /// Reads all files again, and logs a line for each part. If files cannot be used, the old ones stay.
    pub(crate) async fn run(&self) {
        if self.0.is_empty() {
            tracing::info!("reload: this process has no certificate or token to read again");
        }
        for (files, read) in &self.0 {
            let read = Arc::clone(read);
            match spawn_blocking(move || read()).await.map_err(|error| error.to_string()).flatten() {
                Ok(()) => tracing::info!("reload: {files} was read again"),
                Err(error) => tracing::error!(error, "reload: {files} cannot be used, the old one stays"),
            }
        }
    }
}

impl fmt::Debug for Reloads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(files, _)| files)).finish()
    }
}
