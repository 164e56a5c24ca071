//! Start and end of a process that is run from the command line, and the files that it reads again.

#[cfg(target_os = "linux")]
use std::os::linux::net::SocketAddrExt;
use std::{
    collections::HashMap,
    env,
    error::Error,
    ffi::OsStr,
    io,
    os::unix::{
        ffi::OsStrExt,
        fs::MetadataExt,
        net::{SocketAddr, UnixDatagram},
    },
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use futures_util::future::{LocalBoxFuture, join_all};
use parking_lot::Mutex;
use petstore_command_line::{RuntimeError, Signals};
use petstore_settings::{InvalidSetting, ProcessSettings, settings_file};
use petstore_telemetry::logs;
#[cfg(target_os = "linux")]
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sha2::{Digest as _, Sha256};
use tokio::{
    runtime,
    signal::unix::{SignalKind, signal},
    task::spawn_blocking,
    time::{Instant, sleep},
};

use super::{Process, ProcessError};

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
    forbid_core_dumps();
    raise_open_files();
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
    tracing::info!(version = env!("CARGO_PKG_VERSION"), "started");
    tell_supervisor(READY);

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
    tell_supervisor(STOPPING);
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

/// Disables core dumps, which would contain keys, tokens and passwords, and keeps other processes of the same
/// user from reading this one's memory. If the system refuses, that is logged and the process serves anyway.
fn forbid_core_dumps() {
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    // Set only if necessary: a system may refuse the call itself.
    if getrlimit(Resource::Core) != none
        && let Err(error) = setrlimit(Resource::Core, none)
    {
        tracing::warn!(%error, "could not disable core dumps");
    }
    // The limit does not apply to a program that the kernel pipes core dumps to.
    #[cfg(target_os = "linux")]
    if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        tracing::warn!(
            %error,
            "could not disable core dumps that are piped to a program: they would contain keys and passwords"
        );
    }
}

/// Raises the limit of open file descriptors as far as the system allows.
fn raise_open_files() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return;
    }
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        tracing::warn!(%error, "could not raise the limit of open file descriptors");
    }
}

/// State of the protocol of `sd_notify(3)`: all parts serve. systemd then starts what depends on the service
/// (`Type=notify`).
const READY: &[u8] = b"READY=1";
/// State: the process stops.
const STOPPING: &[u8] = b"STOPPING=1";

/// Tells the state to the supervisor, if `NOTIFY_SOCKET` names one. A supervisor that does not listen is no
/// reason not to serve: it is named in the log.
fn tell_supervisor(state: &[u8]) {
    let Some(name) = env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else { return };
    if let Err(error) = send_datagram(name.as_bytes(), state) {
        tracing::warn!(%error, "cannot tell the supervisor at NOTIFY_SOCKET");
    }
}

/// Sends a datagram to a path, or to an abstract address, which begins with `@`. Never waits.
fn send_datagram(name: &[u8], state: &[u8]) -> io::Result<()> {
    let address = match name {
        #[cfg(target_os = "linux")]
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        path => SocketAddr::from_pathname(OsStr::from_bytes(path))?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    socket.send_to_addr(state, &address).map(drop)
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

/// SHA-256 digest of a file's content, mode and owner, which shows nothing of a secret in it.
type Digest = [u8; 32];

fn digest(file: &Path) -> Option<Digest> {
    let (mut content, metadata) = settings_file(file).ok()?;
    content.extend([metadata.mode(), metadata.uid()].map(u32::to_ne_bytes).as_flattened());
    Some(Sha256::digest(content).into())
}
