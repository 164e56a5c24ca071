//! The location of the store.

use std::{
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
};

use sea_orm::sqlx::{ConnectOptions, postgres::PgConnectOptions};

/// The location of the store: a SQLite file or a PostgreSQL database.
///
/// A SQLite file is `sqlite://PATH`. The path is absolute (`sqlite:///var/lib/petstore.db`) or relative to
/// the working directory (`sqlite://data/petstore.db`), and is taken literally: nothing is decoded. A
/// PostgreSQL database is `postgres://USER:PASSWORD@HOST:PORT/DATABASE`, see [`PostgresAddress`].
#[derive(Clone)]
pub enum DatabaseUrl {
    /// Path of the file.
    #[non_exhaustive] // so that only `parse` makes one
    Sqlite(PathBuf),
    /// Address of the database.
    #[non_exhaustive]
    Postgres(Box<PostgresAddress>),
}

impl DatabaseUrl {
    /// Returns the path of the file if it is a SQLite file.
    pub fn sqlite_file(&self) -> Option<&Path> {
        match self {
            Self::Sqlite(path) => Some(path),
            Self::Postgres(_) => None,
        }
    }

    /// Returns `true` if this could be a replica of `store`: a PostgreSQL database of the same name on
    /// another server.
    pub fn may_replicate(&self, store: &Self) -> bool {
        match (self, store) {
            (Self::Postgres(here), Self::Postgres(there)) => {
                here.database() == there.database() && here.host() != there.host()
            }
            _ => false,
        }
    }
}

/// Reason why a text is not a database URL. Shows at most the scheme, because the rest may hold a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DatabaseUrlError {
    /// There is no `scheme://`.
    #[error("the database URL must begin with sqlite:// or postgres://")]
    NoScheme,
    /// The scheme is not supported.
    #[error("the database URL must begin with sqlite:// or postgres://, not with {0}://")]
    UnsupportedScheme(String),
    /// The path of the file is empty, or SQLite's name for a database in memory.
    #[error("the database URL must name a file, as in sqlite://data/petstore.db")]
    NoPath,
    /// The path of the file has a query string.
    #[error("the database URL of a file must not have parameters")]
    HasParameters,
    /// The text begins with `postgres://`, and the rest cannot be parsed.
    #[error(
        "the database URL must be of the form postgres://USER:PASSWORD@HOST:PORT/DATABASE, special \
         characters in its parts percent-encoded"
    )]
    InvalidPostgres,
    /// The database is not named.
    #[error("the database URL must name a database, as in postgres://petstore@localhost/petstore")]
    NoDatabase,
    /// The URL has an unsupported parameter.
    #[error(
        "a postgres:// URL may have the parameters sslmode, sslrootcert, sslcert, sslkey, host, port, user, \
         password, dbname and application_name, and no others"
    )]
    UnsupportedParameter,
}

impl FromStr for DatabaseUrl {
    type Err = DatabaseUrlError;

    fn from_str(url: &str) -> Result<Self, Self::Err> {
        let (scheme, rest) = url.split_once("://").ok_or(DatabaseUrlError::NoScheme)?;
        match scheme {
            "sqlite" => match rest {
                "" | ":memory:" => Err(DatabaseUrlError::NoPath),
                path if path.contains('?') => Err(DatabaseUrlError::HasParameters),
                path => Ok(Self::Sqlite(path.into())),
            },
            "postgres" | "postgresql" => Ok(Self::Postgres(Box::new(url.parse()?))),
            _ => {
                let is_scheme =
                    scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
                Err(if is_scheme && scheme.len() <= 20 {
                    DatabaseUrlError::UnsupportedScheme(scheme.to_owned())
                } else {
                    DatabaseUrlError::NoScheme // it may be a secret
                })
            }
        }
    }
}

/// Formats the URL without a password.
impl fmt::Display for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(f, "sqlite://{}", path.display()),
            Self::Postgres(address) => address.fmt(f),
        }
    }
}

/// Formats the URL without a password.
impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Address and login of a PostgreSQL database: `postgres://USER:PASSWORD@HOST:PORT/DATABASE?PARAMETERS` as in
/// libpq. Omitted parts come from libpq's variables (`PGUSER`, `PGPASSWORD`, …) and from `~/.pgpass`.
///
/// `sslmode` is `disable`, `allow`, `prefer` (the default: encrypted if the server can), `require`,
/// `verify-ca` or `verify-full`, the last two with the authorities in `sslrootcert`.
#[derive(Clone)]
pub struct PostgresAddress(PgConnectOptions);

impl PostgresAddress {
    /// Returns the driver's options for connecting. Their `Debug` shows the password.
    pub(super) fn options(&self) -> PgConnectOptions {
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
    pub(super) fn user(&self) -> &str {
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
        // The driver would only log other parameters, with their values.
        let is_supported = |name| {
            let logins = ["host", "port", "user", "password", "dbname", "application_name"];
            let keys = ["sslmode", "sslrootcert", "sslcert", "sslkey"];
            logins.contains(&name) || keys.contains(&name)
        };
        if !names.map(|pair| pair.split_once('=').map_or(pair, |(name, _)| name)).all(is_supported) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_a_file_may_be_relative_or_absolute() {
        for url in ["sqlite://data/petstore.db", "sqlite:///var/lib/pet store/50%.db"] {
            let parsed: DatabaseUrl = url.parse().unwrap();
            assert_eq!(parsed.to_string(), url);
            assert_eq!(parsed.sqlite_file(), Some(Path::new(&url["sqlite://".len()..])));
        }
    }

    #[test]
    fn a_postgresql_database_is_shown_without_its_password() {
        let cases = [
            ("postgres://pet:SECRET@db.example/shop", "postgres://pet@db.example:5432/shop"),
            ("postgresql://pet:SE%2FCRET@[::1]:6543/shop?sslmode=require", "postgres://pet@[::1]:6543/shop"),
            ("postgres://db.example/shop?user=pet&password=SECRET", "postgres://pet@db.example:5432/shop"),
            (
                "postgres://pet:SECRET@localhost/shop?host=/run/postgresql",
                "postgres://pet@localhost/shop?host=/run/postgresql",
            ),
        ];
        for (url, shown) in cases {
            let parsed: DatabaseUrl = url.parse().unwrap();
            assert_eq!((parsed.to_string(), format!("{parsed:?}")), (shown.to_owned(), shown.to_owned()));
            assert_eq!(parsed.sqlite_file(), None);
        }
    }

    #[test]
    fn a_replica_is_a_database_of_the_same_name_on_another_server() {
        let may_replicate = |replica: &str, store: &str| {
            replica.parse::<DatabaseUrl>().unwrap().may_replicate(&store.parse().unwrap())
        };
        let (file, shop) = ("sqlite://petstore.db", "postgres://petstore@one/shop");
        assert!(may_replicate("postgres://reader@two/shop", shop));
        assert!(may_replicate("postgres://petstore@one:5433/shop", shop));
        for (replica, store) in
            [(file, file), (shop, file), (file, shop), ("postgres://petstore@two/other", shop), (shop, shop)]
        {
            assert!(!may_replicate(replica, store), "{replica} {store}");
        }
    }

    #[test]
    fn an_invalid_url_is_refused_without_being_shown() {
        let cases = [
            ("mysql://u:secret@h/db", DatabaseUrlError::UnsupportedScheme("mysql".into())),
            ("u:secret@h://db", DatabaseUrlError::NoScheme),
            ("data/petstore.db", DatabaseUrlError::NoScheme),
            ("sqlite://", DatabaseUrlError::NoPath),
            ("sqlite://:memory:", DatabaseUrlError::NoPath),
            ("sqlite://pets.db?key=secret", DatabaseUrlError::HasParameters),
            ("postgres://u:secret@h", DatabaseUrlError::NoDatabase),
            ("postgres://u:secret@h:port/db", DatabaseUrlError::InvalidPostgres),
            ("postgres://u:sec/ret@h/db", DatabaseUrlError::InvalidPostgres),
            ("postgres://u@h/db?sslmode=secret", DatabaseUrlError::InvalidPostgres),
            ("postgres://u@h/db?pasword=secret", DatabaseUrlError::UnsupportedParameter),
            ("postgres://u@h/db?pass%77ord=secret", DatabaseUrlError::UnsupportedParameter),
            ("postgres://u@h/db?options=-csecret", DatabaseUrlError::UnsupportedParameter),
        ];
        for (url, expected) in cases {
            let refusal = url.parse::<DatabaseUrl>().unwrap_err();
            assert_eq!(refusal, expected, "{url}");
            assert!(!refusal.to_string().contains("secret"), "{refusal}");
        }
    }
}
