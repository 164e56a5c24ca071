//! Real PgBouncer.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    os::unix::{fs::chown, process::CommandExt},
    process::Command,
};

use rustix::process::Signal;
use tokio::net::TcpStream;

use super::{
    database::ROLE,
    debian::role_account,
    supervised::{StartFault, Supervised},
};
use crate::port::free_port;

/// Program of Debian's package, which is not in the search path of every user.
const PROGRAM: &str = "/usr/sbin/pgbouncer";

const HINT: &str = "install the Debian package pgbouncer (scripts/install-test-servers does)";

/// Single `pgbouncer` on 127.0.0.1 in front of a PostgreSQL server that trusts every client; killed when
/// dropped.
#[derive(Debug)]
pub struct PgBouncerServer {
    port: u16,
    process: Supervised,
}

impl PgBouncerServer {
    /// Starts a pooler in session mode in front of this server, and waits until it listens.
    ///
    /// Panics if it does not start, naming the Debian package if the program is missing.
    pub async fn start(postgres: SocketAddr) -> Self {
        Self::start_with(postgres, "default_pool_size = 50").await
    }

    /// Starts a pooler with one more setting, such as the number of connections to the server.
    ///
    /// Panics as `start` does.
    pub async fn start_with(postgres: SocketAddr, setting: &str) -> Self {
        loop {
            let mut server = Self { port: free_port(), process: Supervised::new(Signal::KILL) };
            server.write_settings(postgres, setting);
            match server.run().await {
                Ok(()) => return server,
                Err(StartFault::PortTaken) => {}
                Err(StartFault::Ended(how)) => panic!("pgbouncer ended with {how}"),
            }
        }
    }

    /// Returns the address for clients.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Kills the process, which breaks every connection, and starts another one.
    pub async fn restart(&mut self) {
        self.process.end(Signal::KILL).await;
        if let Err(fault) = self.run().await {
            panic!("pgbouncer does not start again: {fault:?}");
        }
    }

    fn write_settings(&self, postgres: SocketAddr, setting: &str) {
        let (folder, port) = (self.process.folder(), self.port);
        let (host, to) = (postgres.ip(), postgres.port());
        let settings = format!(
            "[databases]\n* = host={host} port={to}\n\
             [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n\
             auth_type = trust\nauth_file = users\npool_mode = session\n{setting}\n\
             ignore_startup_parameters = extra_float_digits\n"
        );
        fs::write(folder.join("settings"), settings).expect("a file");
        fs::write(folder.join("users"), format!("\"{ROLE}\" \"\"\n")).expect("a file");
    }

    async fn run(&mut self) -> Result<(), StartFault> {
        let mut command = Command::new(PROGRAM);
        command.arg("settings");
        if let Some((uid, gid)) = role_account() {
            chown(self.process.folder(), Some(uid), Some(gid)).expect("root may give a folder away");
            command.uid(uid).gid(gid); // it does not run as root
        }
        self.process.spawn(command, HINT);
        let address = self.address();
        let listens = async |_| match TcpStream::connect(address).await {
            Ok(_) => Ok(()),
            Err(error) => Err(error.to_string()),
        };
        self.process.ready(listens).await
    }
}
