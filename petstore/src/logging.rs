//! The log, on stderr. Only the program sets it up, never [`crate::serve::start`]: it is global to the process.

use std::{
    io::{self, IsTerminal},
    panic,
};

use tracing_subscriber::{EnvFilter, fmt, layer::SubscriberExt, util::SubscriberInitExt};

use crate::settings::InvalidSetting;

/// Starts the log, with the filter of `--log-level`.
pub(crate) fn init(filter: &str) -> Result<(), InvalidSetting> {
    let filter = EnvFilter::try_new(filter).map_err(|error| {
        InvalidSetting::new("--log-level", format!("must be a filter such as info: {error}"))
    })?;
    // A log that cannot be written must not end the service: errors of the writer are dropped.
    let lines =
        fmt::layer().with_writer(io::stderr).with_ansi(io::stderr().is_terminal()).log_internal_errors(false);
    // An error means that there is a log already, in a program that embeds this library: then that one is used.
    let _ = tracing_subscriber::registry().with(filter).with(lines).try_init();
    Ok(())
}

/// Makes a panic one line of the log: where it happened, without its message, which could hold anything.
pub(crate) fn log_panics() {
    panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(place, "a task panicked");
    }));
}
