//! Start and end of a process that is run from the command line.

use std::{io, num::NonZeroUsize, time::Duration};

use petstore_clock::Clock;
use petstore_telemetry::logs;
use tokio::{
    runtime::{self, Runtime},
    time::Instant,
};

use super::{
    Process, ProcessError, StartError, rlimits,
    signals::{Hangups, Signals},
    startup_banner::StartupBanner,
};
use crate::settings::{InvalidSetting, ProcessSettings};

/// Interval within which a second signal does not mean "stop at once": a supervisor may signal the process
/// and then its group, and a terminal signals its whole foreground group.
const REPEATED_SIGNAL_INTERVAL: Duration = Duration::from_millis(200);

/// Starts the process, prints its addresses and runs it until SIGTERM or SIGINT. A second one,
/// [`REPEATED_SIGNAL_INTERVAL`] or more after the first, ends it at once. On SIGHUP certificates and tokens
/// are read again.
pub(crate) fn run(
    settings: &ProcessSettings,
    warnings: &[String],
    start: impl AsyncFnOnce(Clock) -> Result<(Process, StartupBanner), StartError>,
) -> Result<(), ProcessError> {
    logs::init(&settings.log_level, settings.log_format)
        .map_err(|invalid| InvalidSetting::new("--log-level", invalid.to_string()))?;
    logs::log_panics();
    rlimits::forbid_core_dumps();
    rlimits::raise_open_files();
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    let runtime = runtime(settings.worker_threads()).map_err(ProcessError::Runtime)?;
    let ended = runtime.block_on(until_signal(start));
    runtime.shutdown_background(); // all parts have ended or were cut off
    ended
}

/// Creates the runtime. One thread needs no work-stealing scheduler.
fn runtime(worker_threads: NonZeroUsize) -> io::Result<Runtime> {
    let mut builder = match worker_threads.get() {
        1 => runtime::Builder::new_current_thread(),
        _ => runtime::Builder::new_multi_thread(),
    };
    builder.worker_threads(worker_threads.get()).enable_all().build()
}

async fn until_signal(
    start: impl AsyncFnOnce(Clock) -> Result<(Process, StartupBanner), StartError>,
) -> Result<(), ProcessError> {
    let mut signals = Signals::listen().map_err(ProcessError::Runtime)?;
    // A SIGHUP during start or shutdown is ignored.
    let mut hangups = Hangups::listen().map_err(ProcessError::Runtime)?;
    let (mut process, banner) = tokio::select! {
        started = start(Clock::system()) => started?,
        _ = signals.received() => return Ok(()), // as safe as a crash at this point
    };
    banner.print();
    tracing::info!(version = env!("CARGO_PKG_VERSION"), "ready");

    let ended = loop {
        tokio::select! {
            signal = signals.received() => {
                tracing::info!(signal, "stopping");
                break Ok(());
            }
            failure = process.failed() => break Err(failure),
            () = hangups.received() => {}
        }
        process.reload().await;
    };
    let second_signal = async {
        let ignored_until = Instant::now() + REPEATED_SIGNAL_INTERVAL;
        while Instant::now() < ignored_until {
            signals.received().await;
        }
    };
    tokio::select! {
        () = process.stop() => {}
        () = second_signal => return Err(ProcessError::Interrupted),
    }
    tracing::info!("stopped");
    ended
}
