//! Start and end of a process that is run from the command line.

use std::{io, time::Duration};

use futures_util::future::LocalBoxFuture;
use petstore_telemetry::logs;
use tokio::{
    runtime,
    signal::unix::{Signal, SignalKind, signal},
    time::Instant,
};

use super::{Process, ProcessError, StartError, rlimits};
use crate::settings::{InvalidSetting, ProcessSettings};

/// Interval within which a second signal does not mean "stop at once": a supervisor may signal the process
/// and then its group, and a terminal signals its whole foreground group.
const REPEATED_SIGNAL_INTERVAL: Duration = Duration::from_millis(200);

/// SIGTERM and SIGINT (Ctrl-C), which no longer end the process by themselves.
#[derive(Debug)]
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Returns the name of the next signal.
    pub(crate) async fn received(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}

/// Starts the process, prints its addresses and runs it until SIGTERM or SIGINT. A second one,
/// [`REPEATED_SIGNAL_INTERVAL`] or more after the first, ends it at once. On SIGHUP certificates and tokens
/// are read again.
pub(crate) fn run(
    settings: &ProcessSettings,
    warnings: &[String],
    start: LocalBoxFuture<'_, Result<Process, StartError>>,
) -> Result<(), ProcessError> {
    logs::init(&settings.log_level, settings.log_format)
        .map_err(|reason| StartError::from(InvalidSetting::new("--log-level", reason)))?;
    logs::log_panics();
    rlimits::forbid_core_dumps();
    rlimits::raise_open_files();
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    let threads = settings.worker_threads();
    // One thread needs no work-stealing scheduler.
    let mut runtime = match threads {
        1 => runtime::Builder::new_current_thread(),
        _ => runtime::Builder::new_multi_thread(),
    };
    let runtime = runtime.worker_threads(threads).enable_all().build().map_err(ProcessError::Runtime)?;
    let ended = runtime.block_on(until_signal(start));
    runtime.shutdown_background(); // all parts have ended or were cut off
    ended
}

async fn until_signal(start: LocalBoxFuture<'_, Result<Process, StartError>>) -> Result<(), ProcessError> {
    let mut signals = Signals::listen().map_err(ProcessError::Runtime)?;
    // A SIGHUP during start or shutdown is ignored.
    let mut hangups = signal(SignalKind::hangup()).map_err(ProcessError::Runtime)?;
    let mut process = tokio::select! {
        started = start => started?,
        _ = signals.received() => return Ok(()), // as safe as a crash at this moment
    };
    process.addresses.print();
    tracing::info!(version = env!("CARGO_PKG_VERSION"), "ready");

    let ended = loop {
        tokio::select! {
            signal = signals.received() => {
                tracing::info!(signal, "stopping");
                break Ok(());
            }
            failure = process.failed() => break Err(failure),
            _ = hangups.recv() => {}
        }
        process.reloads.run().await;
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
