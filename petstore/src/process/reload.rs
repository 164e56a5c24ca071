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
    pub(crate) fn add(
        &mut self,
        what: &'static str,
        read: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) {
        self.0.push((what, Arc::new(read)));
    }

    /// Reads all files again, and logs a line for each part.
    pub(crate) async fn run(&self) {
        if self.0.is_empty() {
            tracing::info!("reload: this process has neither a certificate nor a token to read again");
        }
        for (what, read) in &self.0 {
            let read = Arc::clone(read);
            match spawn_blocking(move || read()).await.map_err(|error| error.to_string()).flatten() {
                Ok(()) => tracing::info!("reload: {what} was read again"),
                Err(error) => tracing::error!(error, "reload: {what} cannot be used, the old one stays"),
            }
        }
    }
}

impl fmt::Debug for Reloads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(what, _)| what)).finish()
    }
}
