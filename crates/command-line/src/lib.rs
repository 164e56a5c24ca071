//! Commands of a program: their runtime and [`Signals`], their [output], and the
//! [files](output_file::OutputFile) that they write.
//!
//! - A result goes to stdout, as a table for people or as JSON for programs. Everything else goes to stderr,
//!   and repeats no API key that was typed. A result that cannot be printed is an error, not a panic.
//! - A command that cannot be undone asks first, but only a person at a terminal.
//! - A file has its name once it is complete and on the disk. One that is not complete is removed, and what
//!   exists stays unless the person asks for its replacement.
//!
//! Every failure is a value, whose text is for the person at the terminal.
//!
//! ```
//! use std::fs;
//!
//! use petstore_command_line::{
//!     RuntimeError, block_on,
//!     output::{column, sentence, table},
//!     output_file::{OutputFile, OutputFileError, OutputKind},
//! };
//! use serde_json::json;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let rows = json!([{ "name": "north", "limits": { "perDay": 1_000 } }, { "name": "south" }]);
//! let rows = block_on::<_, RuntimeError>("warn", Box::pin(async { Ok(rows) }))?;
//! let columns = [column("NAME", "name"), column("PER DAY", "limits.perDay").or("none")];
//! assert_eq!(table(&columns, &rows), "NAME   PER DAY\nnorth  1000\nsouth  none\n");
//! assert_eq!(sentence("{name} is first", &rows[0]), "north is first\n");
//!
//! let folder = tempfile::tempdir()?;
//! let name = folder.path().join("rows");
//! OutputFile::create(&name, OutputKind::Text, false)?.fill(rows.to_string().as_bytes())?;
//! assert_eq!(fs::read_to_string(&name)?, rows.to_string());
//! let again = OutputFile::create(&name, OutputKind::Text, false);
//! assert!(matches!(again, Err(OutputFileError::Exists(_))));
//! # Ok(())
//! # }
//! ```

pub mod output;
pub mod output_file;

use std::io;

use futures_util::future::LocalBoxFuture;
use petstore_telemetry::logs::{self, LogFormat};
use tokio::{
    runtime,
    signal::unix::{Signal, SignalKind, signal},
};

/// Error of the asynchronous runtime, or of the handling of signals, that cannot be started.
#[derive(Debug, thiserror::Error)]
#[error("cannot start the runtime")]
pub struct RuntimeError(
    /// Error of the operating system.
    #[from]
    pub io::Error,
);

/// Runs the work of a command that ends by itself. `filter` is the filter of its log, and must be valid.
/// Threads that still block when the work ends are not waited for.
///
/// # Errors
///
/// That of the work, or [`RuntimeError`].
pub fn block_on<T, E: From<RuntimeError>>(
    filter: &str,
    work: LocalBoxFuture<'_, Result<T, E>>,
) -> Result<T, E> {
    let _ = logs::init(filter, LogFormat::Pretty); // it is valid
    let runtime = runtime::Builder::new_current_thread().enable_all().build().map_err(RuntimeError)?;
    let ended = runtime.block_on(work);
    runtime.shutdown_background();
    ended
}

/// SIGTERM and SIGINT (Ctrl-C), which no longer end the process by themselves.
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Begins to receive the signals.
    ///
    /// # Errors
    ///
    /// If the operating system has no handler for them.
    pub fn listen() -> Result<Self, RuntimeError> {
        // SIGXFSZ would end the process: a write beyond the limit of a file's size fails instead.
        drop(signal(SignalKind::from_raw(25))?);
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Returns the name of the next signal.
    pub async fn received(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}
