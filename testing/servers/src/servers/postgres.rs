//! Real PostgreSQL.

use std::{
    fs::Permissions,
    net::SocketAddr,
    os::unix::{
        fs::{PermissionsExt, chown},
        process::CommandExt,
    },
    process::Command,
    sync::atomic::{AtomicUsize, Ordering},
};

use rustix::process::{Pid, Signal, kill_process};
use tokio::sync::OnceCell;

use super::{
    database::{Access, Database, ROLE},
    debian::{HINT, programs, role_account},
    process_tree::{children, has_ended},
    program::run,
    supervised::{SERVER_TIMEOUT, StartFault, Supervised},
};
use crate::{eventually, port::free_port};

/// Options of a [`PostgresServer`]. The default has no password and does not sync to the disk.
#[derive(Clone, Debug, Default)]
pub struct PostgresOptions {
    /// Password of the role `postgres` (SCRAM). It has only letters and digits, because it becomes part of a
    /// URL. Without it the server trusts every client.
    pub password: Option<&'static str>,
    /// `true` if commits wait for the disk. Otherwise they survive a crash of the server, but not of the
    /// machine.
    pub fsync: bool,
    /// Certificate and private key, in PEM. With them the server uses TLS with clients that request it.
    pub certificate: Option<(String, String)>,
    /// Further settings, as name and value: `("max_connections", "20")`.
    pub settings: Vec<(&'static str, &'static str)>,
}

/// PostgreSQL server on 127.0.0.1 in its own folder; killed when dropped.
#[derive(Debug)]
pub struct PostgresServer {
    access: Access,
    options: PostgresOptions,
    databases: AtomicUsize,
    process: Supervised,
}

impl PostgresServer {
    /// Returns the server that the tests of this process share. It is started by the first call, and ended
    /// with the process. Take a [`Self::database`] of it. It cannot be paused or killed: a test that does so
    /// starts its own.
    pub async fn shared() -> &'static Self {
        static SHARED: OnceCell<PostgresServer> = OnceCell::const_new();
        SHARED.get_or_init(|| Self::start(PostgresOptions::default())).await
    }

    /// Starts a server on a free port and waits until it takes connections.
    ///
    /// Panics if it does not start, naming the Debian package if the programs are missing.
    pub async fn start(options: PostgresOptions) -> Self {
        let process = Supervised::new(Signal::QUIT); // its immediate stop, which also frees its shared memory
        let access = Access { programs: programs(), port: 0, password: options.password };
        let mut server = Self { access, options, databases: AtomicUsize::new(0), process };
        server.init().await;
        server.run_on_a_free_port().await;
        server
    }

    /// Starts a server that follows the primary and answers reads: a replica of all its databases. The
    /// primary has to trust every client, as it does without a password.
    pub async fn start_replica(primary: &Self) -> Self {
        let process = Supervised::new(Signal::QUIT);
        let access = Access { port: 0, ..primary.access.clone() };
        let options = primary.options.clone();
        let mut server = Self { access, options, databases: AtomicUsize::new(0), process };
        server.give_away_folder();
        let mut copy = server.command("pg_basebackup");
        copy.args(["--pgdata=data", "--write-recovery-conf", "--checkpoint=fast", "--no-sync"]);
        copy.args(["--host=127.0.0.1", "--port", &primary.access.port.to_string(), "--username", ROLE]);
        run(copy.into(), HINT).await.unwrap_or_else(|error| panic!("pg_basebackup: {error}"));
        server.run_on_a_free_port().await;
        server
    }

    async fn run_on_a_free_port(&mut self) {
        loop {
            self.access.port = free_port();
            match self.run().await {
                Ok(()) => return,
                Err(StartFault::PortTaken) => {}
                Err(StartFault::Ended(how)) => panic!("postgres ended with {how}"),
            }
        }
    }

    /// Returns the address, which is the target of a [`Proxy`](crate::faults::Proxy).
    pub fn address(&self) -> SocketAddr {
        self.access.address()
    }

    /// Returns the URL of its database `postgres`, with the password if it has one.
    pub fn url(&self) -> String {
        self.url_at(self.address())
    }

    /// Returns this URL at another address, such as a proxy's.
    pub fn url_at(&self, address: SocketAddr) -> String {
        self.access.url(address, "postgres")
    }

    /// Creates an empty database, which no other test has. It stays until the server ends, unless the test
    /// removes it.
    pub async fn database(&self) -> Database {
        self.copy("template0").await
    }

    /// Creates a copy of a database without connections: tables and rows, without running migrations again.
    pub async fn database_like(&self, template: &Database) -> Database {
        self.copy(template.name()).await
    }

    /// Runs SQL in the database `postgres`. Returns its output, trimmed: rows as lines, columns separated by
    /// `|`.
    ///
    /// Panics if it fails.
    pub async fn psql(&self, sql: &str) -> String {
        self.access.psql("postgres", sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// Ends the connections of all clients, as an administrator would, and returns their number.
    pub async fn terminate_backends(&self) -> usize {
        let count = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
                     WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";
        self.psql(count).await.parse().expect("a number")
    }

    /// Pauses the server (SIGSTOP to it and to every backend): connections stay open, and there are no
    /// answers until [`Self::resume`].
    pub fn pause(&mut self) {
        self.process.signal(Signal::STOP);
        // The children of a stopped server stay its children: it neither makes new ones nor waits for dead
        // ones.
        self.signal_children(Signal::STOP);
    }

    /// Resumes the server after [`Self::pause`].
    pub fn resume(&mut self) {
        self.signal_children(Signal::CONT);
        self.process.signal(Signal::CONT);
    }

    /// Ends it like a crash (SIGKILL to the server and to every backend). [`Self::restart`] starts it again.
    pub async fn kill9(&mut self) {
        self.pause();
        let backends = self.signal_children(Signal::KILL);
        // The next start is refused as long as one of them holds the shared memory.
        eventually(SERVER_TIMEOUT, async || match backends.iter().find(|pid| !has_ended(**pid)) {
            Some(pid) => Err(format!("backend {pid:?} is alive")),
            None => Ok(()),
        })
        .await;
        self.process.end(Signal::KILL).await;
    }

    /// Ends it without waiting (an immediate stop, SIGQUIT): clients are cut off, the next start recovers.
    pub async fn stop_immediate(&mut self) {
        self.process.end(Signal::QUIT).await;
    }

    /// Starts it again on the same port and folder, after an orderly end (a fast stop, SIGINT) if it still
    /// runs.
    pub async fn restart(&mut self) {
        if self.process.is_running() {
            self.process.end(Signal::INT).await;
        }
        self.run().await.unwrap_or_else(|fault| panic!("postgres does not start again: {fault:?}"));
    }

    /// Returns the id of its first process (the postmaster).
    pub fn pid(&mut self) -> i32 {
        self.process.running().as_raw_nonzero().get()
    }

    async fn copy(&self, template: &str) -> Database {
        let name = format!("test_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        // Copying files is the faster of the two strategies if commits do not wait for the disk.
        self.psql(&format!("CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")).await;
        Database::new(self.access.clone(), name)
    }

    async fn init(&mut self) {
        self.give_away_folder();
        let folder = self.process.folder();
        let mut initdb = self.command("initdb");
        initdb.args(["--pgdata=data", "--username", ROLE, "--encoding=UTF8", "--no-locale", "--no-sync"]);
        if let Some(password) = self.options.password {
            std::fs::write(folder.join("password"), password).expect("a file");
            initdb.args(["--auth=scram-sha-256", "--pwfile=password"]);
        } else {
            initdb.arg("--auth=trust");
        }
        run(initdb.into(), HINT).await.unwrap_or_else(|error| panic!("initdb: {error}"));
    }

    fn give_away_folder(&self) {
        if let Some((uid, gid)) = role_account() {
            chown(self.process.folder(), Some(uid), Some(gid)).expect("root may give a folder away");
        }
    }

    async fn run(&mut self) -> Result<(), StartFault> {
        let port = self.access.port.to_string();
        let durable = if self.options.fsync { "on" } else { "off" };
        let mut settings = vec![
            ("port", port.as_str()),
            ("listen_addresses", "127.0.0.1"),
            ("unix_socket_directories", ""), // a temporary folder's path may be too long for one
            ("fsync", durable),
            ("full_page_writes", durable),
            ("shared_buffers", "16MB"),
        ];
        if let Some((certificate, key)) = &self.options.certificate {
            self.keep("certificate.pem", certificate);
            self.keep("key.pem", key);
            settings.extend([
                ("ssl", "on"),
                ("ssl_cert_file", "../certificate.pem"), // from the data folder
                ("ssl_key_file", "../key.pem"),
            ]);
        }
        settings.extend(&self.options.settings);
        let mut postgres = self.command("postgres");
        postgres.args(["-D", "data"]);
        for (name, value) in settings {
            postgres.arg("-c").arg(format!("{name}={value}"));
        }
        self.process.spawn(postgres, HINT);
        let pid_file = self.process.folder().join("data/postmaster.pid");
        self.process
            .ready(async |pid| {
                let lines = std::fs::read_to_string(&pid_file).map_err(|error| error.to_string())?;
                if is_ready(&lines, pid) { Ok(()) } else { Err(format!("postmaster.pid says {lines:?}")) }
            })
            .await
    }

    /// Writes a file that only the server can read, beside its data.
    fn keep(&self, name: &str, content: &str) {
        let file = self.process.folder().join(name);
        std::fs::write(&file, content).expect("a file");
        std::fs::set_permissions(&file, Permissions::from_mode(0o600)).expect("its mode");
        if let Some((uid, gid)) = role_account() {
            chown(&file, Some(uid), Some(gid)).expect("root may give a file away");
        }
    }

    /// Returns a command of one of PostgreSQL's programs, run in the server's folder. PostgreSQL refuses to
    /// run as root: then the command takes the account that the Debian package made.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.access.programs.join(program));
        command.current_dir(self.process.folder());
        if let Some((uid, gid)) = role_account() {
            command.uid(uid).gid(gid);
        }
        command
    }

    fn signal_children(&mut self, signal: Signal) -> Vec<Pid> {
        let backends = children(self.process.running()).expect("Linux tells a process's children");
        for pid in &backends {
            let _ = kill_process(*pid, signal); // it may have ended already
        }
        backends
    }
}

/// Returns `true` if the server is ready. The first line of `postmaster.pid` is the process, the eighth its
/// state.
fn is_ready(pid_file: &str, pid: Pid) -> bool {
    let line = |index| pid_file.lines().nth(index).unwrap_or_default().trim();
    line(0) == pid.as_raw_nonzero().to_string() && matches!(line(7), "ready" | "standby")
}
