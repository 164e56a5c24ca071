//! Start and end of a process that is run from the command line, and the files that it reads again.

use std::{
    collections::HashMap,
    error::Error,
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use futures_util::future::{LocalBoxFuture, join_all};
use parking_lot::Mutex;
use petstore_command_line::{RuntimeError, Signals};
use petstore_settings::{InvalidSetting, ProcessSettings, settings_file};
use petstore_telemetry::logs;
use sha2::{Digest as _, Sha256};
use tokio::{
    runtime,
    signal::unix::{SignalKind, signal},
    task::spawn_blocking,
    time::{Instant, sleep},
};

use super::{Process, ProcessError, rlimits, supervisor};

/// Interval within which a second signal does not mean "stop at once": a supervisor may signal the process
/// and then its group, and a terminal signals its whole foreground group.
const REPEATED_SIGNAL_INTERVAL: Duration = Duration::from_millis(200);

/// Interval at which files are checked for a change.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);

/// Starts the process, prints its addresses and runs it until SIGTERM or SIGINT. A second one,
/// [`REPEATED_SIGNAL_INTERVAL`] or more after the first, ends it at once. On SIGHUP certificates and tokens
/// are read again.
pub(crate) fn run(
    settings: &ProcessSettings,
    warnings: &[String],
    start: impl Future<Output = Result<Process, ProcessError>>,
) -> Result<(), ProcessError> {
    logs::init(&settings.log_level, settings.log_format)
        .map_err(|reason| ProcessError::from(InvalidSetting::new("--log-level", reason)))?;
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
    let runtime = runtime.worker_threads(threads).enable_all().build().map_err(RuntimeError)?;
    let ended = runtime.block_on(until_signal(Box::pin(start)));
    runtime.shutdown_background(); // all parts have ended or were cut off
    ended
}

async fn until_signal(start: LocalBoxFuture<'_, Result<Process, ProcessError>>) -> Result<(), ProcessError> {
    let mut signals = Signals::listen()?;
    // A SIGHUP during start or shutdown is ignored.
    let mut hangups = signal(SignalKind::hangup()).map_err(RuntimeError)?;
    let mut process = tokio::select! {
        started = start => started?,
        _ = signals.received() => return Ok(()), // as safe as a crash at this moment
    };
    process.addresses.print();
    tokio::spawn(process.reloads.clone().watch());
    tracing::info!(version = env!("CARGO_PKG_VERSION"), "ready");
    supervisor::tell(supervisor::READY);

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
    supervisor::tell(supervisor::STOPPING);
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

/// Reads a part's files again and uses them. Returns the reason if they cannot be used, and then changes
/// nothing.
type Read = dyn Fn() -> Result<(), Box<dyn Error + Send + Sync>> + Send + Sync;

/// Part whose files can be read again. Clones share it.
#[derive(Clone)]
struct Reload {
    /// Name of its files.
    name: &'static str,
    /// The files that are watched for changes.
    watched: Vec<PathBuf>,
    /// Their content when they were last read, or shortly before.
    judged: Arc<Mutex<Vec<Option<Digest>>>>,
    read: Arc<Read>,
}

/// Parts whose files can be read again while the process serves.
#[derive(Clone, Default)]
pub(crate) struct Reloads {
    parts: Vec<Reload>,
    /// Content of files before the start has read them. Otherwise one that is replaced meanwhile would pass
    /// for the one in use.
    before: HashMap<PathBuf, Option<Digest>>,
}

impl Reloads {
    /// Notes the content of files that the start has not read yet.
    pub(crate) fn before_start<'f>(files: impl IntoIterator<Item = &'f PathBuf>) -> Self {
        let before = files.into_iter().map(|file| (file.clone(), digest(file))).collect();
        Self { parts: Vec::new(), before }
    }

    /// Adds a part, by the name of its files, which are also read again when one of `watched` changes.
    pub(crate) fn add(
        &mut self,
        name: &'static str,
        watched: impl IntoIterator<Item = PathBuf>,
        read: impl Fn() -> Result<(), Box<dyn Error + Send + Sync>> + Send + Sync + 'static,
    ) {
        let (watched, read): (Vec<PathBuf>, _) = (watched.into_iter().collect(), Arc::new(read));
        let before = watched.iter().map(|file| self.before.get(file).copied().flatten()).collect();
        self.parts.push(Reload { name, watched, judged: Arc::new(Mutex::new(before)), read });
    }

    /// Reads all files again, and logs a line for each part. If files cannot be used, the old ones stay.
    pub(crate) async fn run(&self) {
        if self.parts.is_empty() {
            tracing::info!("this process has no certificate or token to reload");
        }
        for reload in &self.parts {
            reload.run().await;
        }
    }

    /// Reads the files of a part again after a change. Never ends.
    async fn watch(self) {
        let parts = self.parts.into_iter().filter(|reload| !reload.watched.is_empty());
        join_all(parts.map(Reload::follow)).await;
    }
}

impl Reload {
    async fn run(&self) {
        let (files, read) = (self.name, Arc::clone(&self.read));
        *self.judged.lock() = self.content().await;
        match spawn_blocking(move || read()).await.map_err(Into::into).flatten() {
            Ok(()) => tracing::info!("reloaded {files}"),
            Err(error) => tracing::error!(%error, "cannot reload {files}: the old one stays in use"),
        }
    }

    async fn follow(self) {
        let mut last = self.content().await;
        loop {
            sleep(WATCH_INTERVAL).await;
            let now = self.content().await;
            // Equal twice: otherwise the files may be half way through a replacement.
            let is_settled = now == last;
            last = now;
            if is_settled && *self.judged.lock() != last {
                self.run().await;
            }
        }
    }

    /// Returns the digests of the watched files, `None` for one that cannot be read. Only reading shows every
    /// change, and they are small.
    async fn content(&self) -> Vec<Option<Digest>> {
        let files = self.watched.clone();
        spawn_blocking(move || files.iter().map(|file| digest(file)).collect()).await.unwrap_or_default()
    }
}

/// SHA-256 digest of a file, which shows nothing of a secret in it.
type Digest = [u8; 32];

fn digest(file: &Path) -> Option<Digest> {
    settings_file(file).ok().map(|(content, _)| Sha256::digest(content).into())
}

impl fmt::Debug for Reloads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.parts.iter().map(|reload| reload.name)).finish()
    }
}
