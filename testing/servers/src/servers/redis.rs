//! Real Redis.

use std::{
    fmt::Write,
    net::{Ipv4Addr, SocketAddr},
    process::Command,
};

use rustix::process::{Pid, Signal};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use super::{
    program::run,
    supervised::{SERVER_TIMEOUT, StartFault, Supervised},
};
use crate::port::free_port;

pub(super) const HINT: &str = "install the Debian package redis-server (scripts/install-test-servers does)";

/// Options of a [`RedisServer`]. The default is an empty, volatile Redis without a password.
#[derive(Clone, Debug, Default)]
pub struct RedisOptions {
    /// Memory for data, such as `2mb`. Without it there is no limit.
    pub maxmemory: Option<&'static str>,
    /// Policy at that limit: `noeviction` (Redis's default), `allkeys-lru` and so on.
    pub maxmemory_policy: Option<&'static str>,
    /// `true` if writes are kept in an append-only file, synced every second, and so survive
    /// [`RedisServer::kill9`].
    pub appendonly: bool,
    /// Password of clients. It has only letters and digits, because it becomes part of a URL.
    pub requirepass: Option<&'static str>,
    /// Certificate and private key, in PEM. With them the server speaks TLS too, at
    /// [`RedisServer::tls_address`].
    pub certificate: Option<(String, String)>,
    /// Further lines of `redis.conf`, as name and value.
    pub settings: Vec<(&'static str, &'static str)>,
}

/// Single `redis-server` on 127.0.0.1 in its own folder; killed when dropped.
#[derive(Debug)]
pub struct RedisServer {
    port: u16,
    /// Port of TLS, used if there is a certificate.
    tls_port: u16,
    password: Option<&'static str>,
    process: Supervised,
}

impl RedisServer {
    /// Starts a server on a free port and waits until it answers.
    ///
    /// Panics if it does not start, naming the Debian package if the program is missing.
    pub async fn start(options: RedisOptions) -> Self {
        loop {
            let mut server = Self {
                port: free_port(),
                tls_port: free_port(),
                password: options.requirepass,
                process: Supervised::new(Signal::KILL), // its data need not be kept
            };
            let write = |file, text: &str| {
                std::fs::write(server.process.folder().join(file), text).expect("a file");
            };
            write("redis.conf", &server.config(&options));
            if let Some((certificate, key)) = &options.certificate {
                write("certificate.pem", certificate);
                write("key.pem", key);
            }
            match server.run().await {
                Ok(()) => return server,
                Err(StartFault::PortTaken) => {}
                Err(StartFault::Ended(how)) => panic!("redis-server ended with {how}"),
            }
        }
    }

    /// Returns the address, which is the target of a [`Proxy`](crate::faults::Proxy).
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Returns the address of TLS, if it has a certificate.
    pub fn tls_address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.tls_port).into()
    }

    /// Returns the URL, with the password if it has one.
    pub fn url(&self) -> String {
        self.url_at(self.address())
    }

    /// Returns the URL of its Unix socket, if it has one: with `unixsocket` set to that file's name.
    pub fn unix_url(&self, file: &str) -> String {
        format!("unix://{}/{file}", self.process.folder().display())
    }

    /// Returns the URL at another address, such as a proxy's.
    pub fn url_at(&self, address: SocketAddr) -> String {
        self.password
            .map_or(format!("redis://{address}"), |password| format!("redis://:{password}@{address}"))
    }

    /// Runs `redis-cli` with a command such as `["CONFIG", "SET", "maxmemory", "2mb"]`. Returns its output,
    /// trimmed.
    ///
    /// Panics if the command fails.
    pub async fn cli(&self, command: &[&str]) -> String {
        self.try_cli(command).await.unwrap_or_else(|error| panic!("redis-cli {command:?}: {error}"))
    }

    /// Runs a command that may be refused, and returns its output like `cli`. The error is the server's
    /// message.
    ///
    /// # Errors
    /// If the server refuses the command or does not answer.
    pub async fn try_cli(&self, command: &[&str]) -> Result<String, String> {
        let port = self.port.to_string();
        let mut cli = tokio::process::Command::new("redis-cli");
        cli.args(["-h", "127.0.0.1", "-p", &port, "-e"]).args(command);
        if let Some(password) = self.password {
            cli.env("REDISCLI_AUTH", password);
        }
        run(cli, HINT).await
    }

    /// Pauses the server (SIGSTOP): its connections stay open and it answers nothing until [`Self::resume`].
    pub fn pause(&mut self) {
        self.process.signal(Signal::STOP);
    }

    /// Resumes the server after [`Self::pause`].
    pub fn resume(&mut self) {
        self.process.signal(Signal::CONT);
    }

    /// Ends it like a crash (SIGKILL). [`Self::restart`] starts it again.
    pub async fn kill9(&mut self) {
        self.process.end(Signal::KILL).await;
    }

    /// Starts it again on the same port and folder, after an orderly end (SIGTERM) if it still runs.
    pub async fn restart(&mut self) {
        if self.process.is_running() {
            self.process.end(Signal::TERM).await;
        }
        self.run().await.unwrap_or_else(|fault| panic!("redis-server does not start again: {fault:?}"));
    }

    /// Returns the id of its process.
    pub fn pid(&mut self) -> i32 {
        self.process.running().as_raw_nonzero().get()
    }

    fn config(&self, options: &RedisOptions) -> String {
        // Without `save` no snapshot is written, so that only `appendonly` keeps anything.
        let mut config =
            format!("bind 127.0.0.1\nport {}\nsave \"\"\nenable-debug-command local\n", self.port);
        let mut set = |name: &str, value: &str| writeln!(config, "{name} {value}").expect("a String");
        set("appendonly", if options.appendonly { "yes" } else { "no" });
        let given = [
            ("maxmemory", options.maxmemory),
            ("maxmemory-policy", options.maxmemory_policy),
            ("requirepass", options.requirepass),
        ];
        for (name, value) in given.into_iter().filter_map(|(name, value)| Some((name, value?))) {
            set(name, value);
        }
        if options.certificate.is_some() {
            set("tls-port", &self.tls_port.to_string());
            set("tls-cert-file", "certificate.pem");
            set("tls-key-file", "key.pem");
            set("tls-auth-clients", "no");
        }
        for (name, value) in &options.settings {
            set(name, value);
        }
        config
    }

    async fn run(&mut self) -> Result<(), StartFault> {
        let mut command = Command::new("redis-server");
        command.arg("redis.conf");
        self.process.spawn(command, HINT);
        let (address, password) = (self.address(), self.password);
        self.process.ready(async |pid| answers(address, password, pid).await).await
    }
}

/// Checks that the process with this id answers at the address and has loaded its data. Another Redis, which
/// might be another test's, may answer there.
async fn answers(address: SocketAddr, password: Option<&str>, pid: Pid) -> Result<(), String> {
    let info = async {
        let mut stream = TcpStream::connect(address).await?;
        let auth = password.map(|password| format!("AUTH {password}\r\n")).unwrap_or_default();
        stream.write_all(format!("{auth}PING\r\nINFO\r\nQUIT\r\n").as_bytes()).await?;
        let mut info = String::new();
        stream.read_to_string(&mut info).await?;
        Ok::<_, std::io::Error>(info)
    };
    let info = timeout(SERVER_TIMEOUT, info)
        .await
        .map_err(|_| "no answer to PING")?
        .map_err(|error| error.to_string())?;
    let is_ready = ["+PONG", &format!("process_id:{}\r", pid.as_raw_nonzero()), "loading:0\r"]
        .iter()
        .all(|sign| info.contains(sign));
    if is_ready { Ok(()) } else { Err(format!("not ready: {}", info.lines().next().unwrap_or_default())) }
}
