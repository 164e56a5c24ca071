//! Databases of a PostgreSQL server, and access to them.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
};

use super::{debian::HINT, program::run};

/// Superuser that `initdb` makes.
pub(super) const ROLE: &str = "postgres";

/// Access to a server. It remains valid while the server is down, and after a restart.
#[derive(Clone, Debug)]
pub(super) struct Access {
    /// Folder of `psql`.
    pub(super) programs: PathBuf,
    pub(super) port: u16,
    pub(super) password: Option<&'static str>,
}

impl Access {
    pub(super) fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// Returns the URL, with the password if there is one.
    pub(super) fn url(&self, address: SocketAddr, database: &str) -> String {
        let password = self.password.map(|password| format!(":{password}")).unwrap_or_default();
        format!("postgres://{ROLE}{password}@{address}/{database}")
    }

    pub(super) async fn psql(&self, database: &str, sql: &str) -> Result<String, String> {
        self.psql_at(self.port, database, sql).await
    }

    async fn psql_at(&self, port: u16, database: &str, sql: &str) -> Result<String, String> {
        let mut psql = tokio::process::Command::new(self.programs.join("psql"));
        psql.args(["--no-psqlrc", "--quiet", "--no-align", "--tuples-only", "--set=ON_ERROR_STOP=1"]);
        psql.args(["--host=127.0.0.1", "--port", &port.to_string(), "--username", ROLE]);
        psql.args(["--dbname", database, "--command", sql]);
        psql.env("PGPASSWORD", self.password.unwrap_or_default());
        run(psql, HINT).await
    }
}

/// Database that no other test has. It ends with its server, but does not borrow the server, which can be
/// killed and restarted meanwhile.
#[derive(Clone, Debug)]
pub struct Database {
    access: Access,
    name: String,
}

impl Database {
    pub(super) fn new(access: Access, name: String) -> Self {
        Self { access, name }
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the URL, with the password if the server requires one.
    pub fn url(&self) -> String {
        self.url_at(self.access.address())
    }

    /// Returns the URL at another address, such as a proxy's.
    pub fn url_at(&self, address: SocketAddr) -> String {
        self.access.url(address, &self.name)
    }

    /// Runs SQL in the database. Returns its output, trimmed: rows as lines, columns separated by `|`.
    ///
    /// Panics if it fails.
    pub async fn psql(&self, sql: &str) -> String {
        self.try_psql(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// Runs SQL that may be refused, and returns its output like `psql`. The error is the server's message.
    ///
    /// # Errors
    /// If the server refuses it or does not answer.
    pub async fn try_psql(&self, sql: &str) -> Result<String, String> {
        self.access.psql(&self.name, sql).await
    }

    /// Runs SQL that may be refused through a proxy at this address of the loopback.
    ///
    /// # Errors
    /// If the server refuses it, or the connection breaks.
    pub async fn try_psql_at(&self, address: SocketAddr, sql: &str) -> Result<String, String> {
        self.access.psql_at(address.port(), &self.name, sql).await
    }

    /// Ends the connections of its clients, as an administrator would, and returns their number. Those of
    /// other databases stay.
    pub async fn terminate_backends(&self) -> usize {
        let count = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
                     WHERE datname = current_database() AND pid <> pg_backend_pid()";
        self.psql(count).await.parse().expect("a number")
    }

    /// Removes it from the server and ends its connections, for a test that makes many or large ones.
    pub async fn remove(self) {
        let sql = format!("DROP DATABASE {} WITH (FORCE)", self.name);
        self.access.psql("postgres", &sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }
}
