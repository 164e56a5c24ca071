//! Server process that ends with its owner, or with the test process.

use std::{
    fs::File,
    io::Write,
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::process_tree::children;
use crate::eventually;

/// Timeout of a start or a stop, longer than either takes on a busy machine.
pub(super) const SERVER_TIMEOUT: Duration = Duration::from_secs(20);

/// Folder, and at most one process at a time that runs in it. Both are removed on drop.
///
/// Only a process that this value started and has not yet waited for is signalled: its id cannot have passed
/// to another process.
#[derive(Debug)]
pub(super) struct Supervised {
    folder: TempDir,
    child: Option<Child>,
    end: Signal,
    watchdog: Child,
}

/// Reason why a start failed.
#[derive(Debug)]
pub(super) enum StartFault {
    /// Another process has taken the port since it was chosen.
    PortTaken,
    /// Any other reason: how the process ended, and its output.
    Ended(String),
}

impl Supervised {
    /// Creates an empty folder, and the watchdog that sends this signal once this process is gone.
    pub(super) fn new(end: Signal) -> Self {
        let folder = TempDir::new().expect("a temporary folder");
        let watchdog = Command::new("sh")
            .args(["-c", include_str!("watchdog.sh"), "watchdog", &end.as_raw().to_string()])
            .arg(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Signals to the test's group (Ctrl-C, a runner's timeout) must not reach the watchdog.
            .process_group(0)
            .spawn()
            .expect("sh runs");
        Self { folder, child: None, end, watchdog }
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Starts the process; its output is [`Self::log`].
    ///
    /// Panics with the hint if the program is missing.
    pub(super) fn spawn(&mut self, mut command: Command, hint: &str) {
        assert!(self.child.is_none(), "it is already running");
        let log = File::create(self.folder().join("log")).expect("a log file");
        command.current_dir(self.folder()).process_group(0).stdin(Stdio::null());
        command.stderr(log.try_clone().expect("a file")).stdout(log);
        let child = command
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}; {hint}", command.get_program().display()));
        self.tell_watchdog(&child.id().to_string());
        self.child = Some(child);
    }

    /// Returns the output of the process since its last start.
    pub(super) fn log(&self) -> String {
        std::fs::read(self.folder().join("log"))
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    /// Waits until the process says that it is ready.
    pub(super) async fn ready(
        &mut self,
        mut ask: impl AsyncFnMut(Pid) -> Result<(), String>,
    ) -> Result<(), StartFault> {
        eventually(SERVER_TIMEOUT, async || {
            if let Some(status) = self.ended() {
                let log = self.log();
                return Ok(Err(if log.contains("Address already in use") {
                    StartFault::PortTaken
                } else {
                    StartFault::Ended(format!("{status}; it wrote:\n{log}"))
                }));
            }
            match ask(self.running()).await {
                Ok(()) => Ok(Ok(())),
                Err(seen) => Err(format!("{seen}; it wrote:\n{}", self.log())),
            }
        })
        .await
    }

    /// Returns the id of the process. Panics if it is not running.
    pub(super) fn running(&mut self) -> Pid {
        if let Some(status) = self.ended() {
            panic!("the server has ended by itself with {status}; it wrote:\n{}", self.log());
        }
        Pid::from_child(self.child.as_ref().expect("the server is not running"))
    }

    /// Returns `true` if the process runs.
    pub(super) fn is_running(&mut self) -> bool {
        self.child.is_some() && self.ended().is_none()
    }

    /// Sends a signal to the running process.
    pub(super) fn signal(&mut self, signal: Signal) {
        kill_process(self.running(), signal).expect("our own child");
    }

    /// Sends a signal and waits until the process has ended.
    pub(super) async fn end(&mut self, signal: Signal) {
        self.signal(signal);
        eventually(SERVER_TIMEOUT, async || self.ended().map(drop).ok_or_else(|| self.log())).await;
    }

    /// Returns how the process ended, once.
    fn ended(&mut self) -> Option<ExitStatus> {
        let status = self.child.as_mut()?.try_wait().expect("a child")?;
        self.child = None;
        self.tell_watchdog("");
        Some(status)
    }

    fn tell_watchdog(&mut self, pid: &str) {
        let pipe = self.watchdog.stdin.as_mut().expect("piped");
        writeln!(pipe, "{pid}").expect("the watchdog reads");
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        let start = Instant::now();
        if let Some(child) = &self.child {
            let pid = Pid::from_child(child);
            for stopped in children(pid).unwrap_or_default().into_iter().chain([pid]) {
                let _ = kill_process(stopped, Signal::CONT); // else it takes no other signal than SIGKILL
            }
            let _ = kill_process(pid, self.end);
        }
        while let Some(child) = &mut self.child {
            if !matches!(child.try_wait(), Ok(None)) {
                self.child = None;
            } else if start.elapsed() > SERVER_TIMEOUT {
                let _ = child.kill();
            } else {
                std::thread::sleep(Duration::from_millis(5)); // a drop cannot await
            }
        }
        if let Some(mut pipe) = self.watchdog.stdin.take() {
            let _ = pipe.write_all(b"\n");
        }
        let _ = self.watchdog.wait();
    }
}
