//! Running a process from the command line until a signal ends it.

use std::time::Duration;

use petstore_clock::Clock;
use tokio::{runtime, time::Instant};

use super::{
    Process, ProcessError, StartError, core_dumps, descriptors,
    signals::{Hangups, Signals},
    startup_banner::StartupBanner,
};
use crate::{logging, settings::ProcessSettings};

/// What comes sooner after the first signal is no second wish to stop: a supervisor may signal the process and then
/// its group, and a terminal all of its foreground.
const REPEATED_SIGNAL_INTERVAL: Duration = Duration::from_millis(200);

/// Starts the process, announces it and runs it until SIGTERM or SIGINT; a second one, [`REPEATED_SIGNAL_INTERVAL`] or more after
/// the first, ends it at once. SIGHUP has certificates and tokens read again.
pub(crate) fn run(
    settings: &ProcessSettings,
    warnings: &[String],
    start: impl AsyncFnOnce(Clock) -> Result<(Process, StartupBanner), StartError>,
) -> Result<(), ProcessError> {
    logging::init(&settings.log_level, settings.log_format)?;
    logging::log_panics();
    core_dumps::forbid();
    descriptors::raise_limit();
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    let runtime = runtime::Builder::new_multi_thread().enable_all().build().map_err(ProcessError::Runtime)?;
    let ended = runtime.block_on(until_signal(start));
    runtime.shutdown_background(); // what should have ended has, or was cut off: nothing is waited for
    ended
}

async fn until_signal(
    start: impl AsyncFnOnce(Clock) -> Result<(Process, StartupBanner), StartError>,
) -> Result<(), ProcessError> {
    let mut signals = Signals::listen().map_err(ProcessError::Runtime)?;
    let mut hangups = Hangups::listen().map_err(ProcessError::Runtime)?; // one that comes too early or late does nothing
    let (mut process, banner) = tokio::select! {
        started = start(Clock::system()) => started?,
        _ = signals.received() => return Ok(()), // as safe as a crash at that moment
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
    let impatient = async {
        let deaf = Instant::now() + REPEATED_SIGNAL_INTERVAL;
        while Instant::now() < deaf {
            signals.received().await;
        }
    };
    tokio::select! {
        () = process.stop() => {}
        () = impatient => return Err(ProcessError::Interrupted),
    }
    tracing::info!("stopped");
    ended
}
