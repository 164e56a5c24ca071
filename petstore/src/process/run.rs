//! Running a process from the command line until a signal ends it.

use std::time::Duration;

use petstore_clock::Clock;
use tokio::{runtime, time::Instant};

use super::{
    Process, core_dumps, descriptors,
    signals::{Hangups, Signals},
    startup_banner::Announcement,
};
use crate::{
    cli::unknown_variables,
    error::{Failure, StartError},
    logging,
    settings::ProcessSettings,
};

/// What comes sooner after the first signal is no second wish to stop: a supervisor may signal the process and then
/// its group, and a terminal all of its foreground.
const IMPATIENCE: Duration = Duration::from_millis(200);

/// Starts the process, announces it and runs it until SIGTERM or SIGINT; a second one, [`IMPATIENCE`] or more after
/// the first, ends it at once. SIGHUP has certificates and tokens read again.
pub(crate) fn run(
    settings: &ProcessSettings,
    start: impl AsyncFnOnce(Clock) -> Result<(Process, Announcement), StartError>,
) -> Result<(), Failure> {
    logging::init(&settings.log_level, settings.log_format)?;
    logging::log_panics();
    core_dumps::forbid();
    descriptors::raise_limit();
    for warning in unknown_variables() {
        tracing::warn!("{warning}");
    }
    let runtime = runtime::Builder::new_multi_thread().enable_all().build().map_err(Failure::Runtime)?;
    let ended = runtime.block_on(until_signal(start));
    runtime.shutdown_background(); // what should have ended has, or was cut off: nothing is waited for
    ended
}

async fn until_signal(
    start: impl AsyncFnOnce(Clock) -> Result<(Process, Announcement), StartError>,
) -> Result<(), Failure> {
    let mut signals = Signals::listen().map_err(Failure::Runtime)?;
    let mut hangups = Hangups::listen().map_err(Failure::Runtime)?; // one that comes too early or late does nothing
    let (mut process, announcement) = tokio::select! {
        started = start(Clock::system()) => started?,
        _ = signals.received() => return Ok(()), // as safe as a crash at that moment
    };
    announcement.print();
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
        let deaf = Instant::now() + IMPATIENCE;
        while Instant::now() < deaf {
            signals.received().await;
        }
    };
    tokio::select! {
        () = process.stop() => {}
        () = impatient => return Err(Failure::Interrupted),
    }
    tracing::info!("stopped");
    ended
}
