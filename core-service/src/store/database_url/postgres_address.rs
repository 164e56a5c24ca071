//! Address and login of a PostgreSQL database.

use std::{fmt, str::FromStr};

use sea_orm::sqlx::{ConnectOptions, postgres::PgConnectOptions};

use super::DatabaseUrlError;

/// Supported parameters of the URL. All others are refused: the driver would only log them, with their
/// values.
const PARAMETERS: [&str; 10] = [
    "sslmode",
    "sslrootcert",
    "sslcert",
    "sslkey",
    "host",
    "port",
    "user",
    "password",
    "dbname",
    "application_name",
];

/// Address and login of a PostgreSQL database: `postgres://USER:PASSWORD@HOST:PORT/DATABASE?PARAMETERS` as in
/// libpq. Omitted parts come from libpq's variables (`PGUSER`, `PGPASSWORD`, …) and from `~/.pgpass`.
///
/// `sslmode` is `disable`, `allow`, `prefer` (the default: encrypted if the server can), `require`,
/// `verify-ca` or `verify-full`, the last two with the authorities in `sslrootcert`.
#[derive(Clone)]
pub struct PostgresAddress(PgConnectOptions);

impl PostgresAddress {
    /// Returns the driver's options for connecting. Their `Debug` shows the password.
    pub(in crate::store) fn options(&self) -> PgConnectOptions {
        self.0.clone()
    }

    /// Returns `HOST:PORT`, or the folder of the Unix socket.
    pub(crate) fn host(&self) -> String {
        match self.0.get_socket() {
            Some(socket) => socket.display().to_string(),
            None => format!("{}:{}", self.0.get_host(), self.0.get_port()),
        }
    }

    /// Returns the name of the user that logs in.
    pub(in crate::store) fn user(&self) -> &str {
        self.0.get_username()
    }

    /// Returns the name of the database.
    pub(crate) fn database(&self) -> &str {
        self.0.get_database().unwrap_or_default()
    }
}

impl FromStr for PostgresAddress {
    type Err = DatabaseUrlError;

    fn from_str(url: &str) -> Result<Self, Self::Err> {
        let query = url.split_once('?').map_or("", |(_, query)| query);
        let names = query.split('&').filter(|pair| !pair.is_empty());
        if !names
            .map(|pair| pair.split_once('=').map_or(pair, |(name, _)| name))
            .all(|name| PARAMETERS.contains(&name))
        {
            return Err(DatabaseUrlError::UnsupportedParameter);
        }
        // The driver's error may repeat parts of the URL.
        let options: PgConnectOptions = url.parse().map_err(|_| DatabaseUrlError::InvalidPostgres)?;
        match options.get_database() {
            None | Some("") => Err(DatabaseUrlError::NoDatabase),
            Some(_) => Ok(Self(options.disable_statement_logging())),
        }
    }
}

/// Formats the URL without password and parameters.
impl fmt::Display for PostgresAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (user, database) = (self.user(), self.database());
        match self.0.get_socket() {
            Some(socket) => write!(f, "postgres://{user}@localhost/{database}?host={}", socket.display()),
            None => write!(f, "postgres://{user}@{}/{database}", self.host()),
        }
    }
}

/// Formats the URL without password and parameters.
impl fmt::Debug for PostgresAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
