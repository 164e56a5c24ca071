//! Installation of the binary, run as an operator runs it.

use std::{
    collections::HashMap,
    fs::{self, Permissions},
    net::SocketAddr,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Output, Stdio},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use serde_json::Value;
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader},
    process::{Child, ChildStderr, Command},
    task::JoinHandle,
    time::timeout,
};

use crate::{Answer, Client, eventually};

/// Timeout of a start or a command, longer than either takes on a busy machine.
const COMMAND_TIMEOUT: Duration = Duration::from_mins(1);

/// Folder in which the binary runs; removed when dropped.
#[derive(Debug)]
pub struct Installation {
    program: PathBuf,
    folder: TempDir,
    variables: Vec<(String, String)>,
}

/// End of a run of the binary.
#[derive(Clone, Debug)]
pub struct Exit {
    /// Exit code; absent if a signal ended it.
    pub code: Option<i32>,
    /// Complete standard output.
    pub stdout: String,
    /// Complete standard error.
    pub stderr: String,
    /// Time from the call, or from the wait, to the end.
    pub took: Duration,
}

impl Exit {
    fn of(output: Output, start: Instant) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).expect("UTF-8"),
            stderr: String::from_utf8(output.stderr).expect("UTF-8"),
            took: start.elapsed(),
        }
    }

    /// Returns the JSON document on standard output. Fails unless the run succeeded.
    #[track_caller]
    pub fn json(&self) -> Value {
        assert_eq!(self.code, Some(0), "{self:?}");
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("not JSON ({error}): {self:?}"))
    }

    /// Fails unless the run ended with `code`, without output, and with one line on standard error that has
    /// all these parts.
    #[track_caller]
    pub fn assert_refused(&self, code: i32, parts: &[&str]) {
        assert_eq!((self.code, self.stdout.as_str()), (Some(code), ""), "{self:?}");
        assert_eq!(self.stderr.lines().count(), 1, "not one line: {self:?}");
        for part in parts {
            assert!(self.stderr.contains(part), "{part} is not named: {self:?}");
        }
    }
}

impl Installation {
    /// Creates an empty folder for this binary: pass `env!("CARGO_BIN_EXE_petstore")`.
    pub fn of(program: &str) -> Self {
        let folder = TempDir::new().expect("a temporary folder");
        Self { program: program.into(), folder, variables: Vec::new() }
    }

    /// Returns the installation with an environment variable for every run.
    pub fn with_variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Returns an empty folder for this program, with the same variables.
    pub fn running(&self, program: &Path) -> Self {
        let folder = TempDir::new().expect("a temporary folder");
        Self { program: program.into(), folder, variables: self.variables.clone() }
    }

    /// Returns the working folder of every run.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the text of a file in the folder.
    pub fn read(&self, file: &str) -> String {
        fs::read_to_string(self.folder().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
    }

    /// Writes a file that only its owner can read.
    pub fn write_secret(&self, file: &str, content: &str) {
        let path = self.folder().join(file);
        fs::write(&path, content).expect("a writable folder");
        fs::set_permissions(path, Permissions::from_mode(0o600)).expect("its mode");
    }

    /// Runs a command to its end.
    pub async fn run(&self, args: &[&str]) -> Exit {
        let start = Instant::now();
        let output = timeout(COMMAND_TIMEOUT, self.command(args).output());
        let output =
            output.await.unwrap_or_else(|_| panic!("petstore {args:?} does not end")).expect("it runs");
        Exit::of(output, start)
    }

    /// Runs a command to its end, and returns its JSON output. Fails unless it succeeds.
    pub async fn json(&self, args: &[&str]) -> Value {
        self.run(&[args, &["--output", "json"]].concat()).await.json()
    }

    /// Runs a command to its end, with this as its standard input.
    pub async fn run_with_input(&self, args: &[&str], input: &[u8]) -> Exit {
        let start = Instant::now();
        let mut child = self.command(args).stdin(Stdio::piped()).spawn().expect("it runs");
        let mut stdin = child.stdin.take().expect("piped");
        let written = async {
            let _ = stdin.write_all(input).await; // it may end before it has read all
            drop(stdin);
        };
        let (output, ()) =
            timeout(COMMAND_TIMEOUT, async { tokio::join!(child.wait_with_output(), written) })
                .await
                .unwrap_or_else(|_| panic!("petstore {args:?} does not end"));
        Exit::of(output.expect("it runs"), start)
    }

    /// Runs a command with a standard input that begins with `input` and does not end. When `moment`
    /// completes, sends a signal, given by its name without `SIG`.
    pub async fn run_until(
        &self,
        args: &[&str],
        input: &[u8],
        moment: impl Future<Output = ()>,
        signal: &str,
    ) -> Exit {
        let start = Instant::now();
        let mut child = self.command(args).stdin(Stdio::piped()).spawn().expect("it runs");
        let mut stdin = child.stdin.take().expect("piped");
        let (_, ()) = tokio::join!(stdin.write_all(input), moment); // it may end before it has read all
        if let Some(pid) = child.id() {
            let sent = Command::new("kill").arg(format!("-{signal}")).arg(pid.to_string()).status().await;
            sent.expect("kill runs"); // it may have ended meanwhile
        }
        let output = timeout(COMMAND_TIMEOUT, child.wait_with_output()).await;
        let output = output.unwrap_or_else(|_| panic!("petstore {args:?} does not end by SIG{signal}"));
        Exit::of(output.expect("it runs"), start)
    }

    /// Starts a server, and waits until it has printed its addresses. It is killed when dropped.
    pub async fn start(&self, args: &[&str]) -> Server {
        self.try_start(args).await.unwrap_or_else(|end| panic!("petstore {args:?} {end}"))
    }

    /// Starts a server whose standard error is not read, so that it fills up.
    pub async fn start_unread(&self, args: &[&str]) -> Server {
        self.start_with(args, Lines::unread).await.unwrap_or_else(|end| panic!("petstore {args:?} {end}"))
    }

    /// Starts a server that may end at once.
    ///
    /// # Errors
    ///
    /// If it ended before it had printed its addresses: its status and its standard error.
    pub async fn try_start(&self, args: &[&str]) -> Result<Server, String> {
        self.start_with(args, Lines::of).await
    }

    async fn start_with(&self, args: &[&str], stderr: fn(ChildStderr) -> Lines) -> Result<Server, String> {
        let mut child = self.command(args).spawn().expect("it runs");
        let stdout = Lines::of(child.stdout.take().expect("piped"));
        let stderr = stderr(child.stderr.take().expect("piped"));
        let mut server = Server { child, stdout, stderr, addresses: HashMap::new() };
        // The last line that every deployment with a store prints; a gateway has none.
        let last = if args.first() == Some(&"gateway") { "admin " } else { "store " };
        eventually(COMMAND_TIMEOUT, async || {
            if let Some(status) = server.child.try_wait().expect("a child") {
                return Ok(Err(format!("ended with {status}: {}", server.stderr.text())));
            }
            let announced = server.stdout.text();
            if announced.lines().any(|line| line.starts_with(last)) { Ok(Ok(())) } else { Err(announced) }
        })
        .await?;
        server.addresses = addresses(&server.stdout.text());
        Ok(server)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(args).current_dir(self.folder()).kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("PETSTORE_")) {
            command.env_remove(name); // the machine's own settings are not the test's
        }
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }
}

/// Running server.
#[derive(Debug)]
pub struct Server {
    child: Child,
    stdout: Lines,
    stderr: Lines,
    addresses: HashMap<String, SocketAddr>,
}

impl Server {
    /// Returns a REST client without a key.
    pub fn anonymous(&self) -> Client {
        Client::new(self.address("REST"))
    }

    /// Returns a REST client with the key.
    pub fn client(&self, key: &str) -> Client {
        self.anonymous().with_key(key)
    }

    /// Returns a client of the admin port.
    pub fn admin(&self) -> Client {
        Client::new(self.address("admin"))
    }

    /// Waits until it is ready for requests. Returns the answer of `/readyz`.
    pub async fn ready(&self) -> Answer {
        eventually(COMMAND_TIMEOUT, async || match self.admin().get("/readyz").await {
            ready if ready.status() == 200 => Ok(ready),
            unready => Err(format!("{unready:?}")),
        })
        .await
    }

    /// Returns the printed address of `REST`, `HTTPS`, `gRPC` or `admin`.
    pub fn address(&self, port: &str) -> SocketAddr {
        *self.addresses.get(port).unwrap_or_else(|| panic!("no {port} in {:?}", self.addresses))
    }

    /// Returns the id of the process.
    pub fn pid(&self) -> u32 {
        self.child.id().expect("a running process")
    }

    /// Returns the standard output so far.
    pub fn stdout(&self) -> String {
        self.stdout.text()
    }

    /// Returns the standard error so far.
    pub fn stderr(&self) -> String {
        self.stderr.text()
    }

    /// Sends a signal, by its name without `SIG`.
    pub async fn signal(&self, name: &str) {
        let status = Command::new("kill").arg(format!("-{name}")).arg(self.pid().to_string()).status().await;
        assert!(status.expect("kill runs").success(), "kill -{name} failed");
    }

    /// Sends SIGTERM and waits for the end.
    pub async fn terminate(self) -> Exit {
        self.ended_by("TERM").await
    }

    /// Sends SIGKILL, as a crash would end it, and waits for the end.
    pub async fn crash(self) -> Exit {
        self.ended_by("KILL").await
    }

    /// Sends a signal and waits for the end.
    pub async fn ended_by(self, signal: &str) -> Exit {
        self.signal(signal).await;
        self.ended().await
    }

    /// Waits for the end.
    pub async fn ended(mut self) -> Exit {
        let start = Instant::now();
        let status = timeout(COMMAND_TIMEOUT, self.child.wait()).await;
        let status = status.unwrap_or_else(|_| panic!("does not end; stderr: {}", self.stderr.text()));
        let took = start.elapsed();
        let (stdout, stderr) = (self.stdout.all().await, self.stderr.all().await);
        Exit { code: status.expect("a child").code(), stdout, stderr, took }
    }
}

/// Parses lines such as `REST   http://127.0.0.1:8080/v1`, by their first word.
fn addresses(announcement: &str) -> HashMap<String, SocketAddr> {
    announcement
        .lines()
        .filter_map(|line| {
            let (name, rest) = line.split_once(' ')?;
            let address =
                rest.trim().trim_start_matches("http://").trim_start_matches("https://").split('/').next()?;
            Some((name.to_owned(), address.parse().ok()?))
        })
        .collect()
}

/// Lines of a stream, read as they arrive, so that the process never waits for a reader.
#[derive(Debug)]
struct Lines {
    text: Arc<Mutex<String>>,
    reader: JoinHandle<()>,
    /// Standard error that is kept open and not read.
    _unread: Option<ChildStderr>,
}

impl Lines {
    fn of(stream: impl AsyncRead + Unpin + Send + 'static) -> Self {
        let text = Arc::new(Mutex::new(String::new()));
        let sink = Arc::clone(&text);
        let reader = tokio::spawn(async move {
            let mut lines = BufReader::new(stream).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let mut text = sink.lock().expect("no panic under this lock");
                text.push_str(&line);
                text.push('\n');
            }
        });
        Self { text, reader, _unread: None }
    }

    fn unread(stream: ChildStderr) -> Self {
        Self { text: Arc::default(), reader: tokio::spawn(async {}), _unread: Some(stream) }
    }

    fn text(&self) -> String {
        self.text.lock().expect("no panic under this lock").clone()
    }

    /// Returns everything, once the stream has ended.
    async fn all(self) -> String {
        self.reader.await.expect("no panic in the reader");
        self.text.lock().expect("no panic under this lock").clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn announced_addresses_are_found_by_their_first_word() {
        let announced =
            "REST   http://127.0.0.1:8080/v1\ngRPC   [::1]:50051\nstore  sqlite://data/petstore.db\n";
        let found = addresses(announced);
        assert_eq!(found["REST"], "127.0.0.1:8080".parse().unwrap());
        assert_eq!(found["gRPC"], "[::1]:50051".parse().unwrap());
        assert_eq!(found.len(), 2);
    }
}
