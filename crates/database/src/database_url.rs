//! The location of the store.

use std::{
    env, fmt,
    path::{Path, PathBuf},
    str::FromStr,
};

use sea_orm::sqlx::{
    self, ConnectOptions,
    postgres::{PgConnectOptions, PgSslMode},
};

/// The location of the store: a SQLite file or a PostgreSQL database.
///
/// A SQLite file is `sqlite://PATH`. The path is absolute (`sqlite:///var/lib/petstore.db`) or relative to
/// the working directory (`sqlite://data/petstore.db`), and is taken literally: nothing is decoded. A
/// PostgreSQL database is `postgres://USER:PASSWORD@HOST:PORT/DATABASE`, see [`PostgresAddress`].
#[derive(Clone, Debug)]
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

    /// Returns the names of the files with authorities, certificate and key that the driver reads whenever it
    /// connects over TLS: those in the URL, otherwise those in libpq's variables.
    pub fn tls_files(&self) -> [Option<PathBuf>; 3] {
        let Self::Postgres(address) = self else { return [None, None, None] };
        // The driver tells them only so, and panics at an IPv6 address and at some users, so both are
        // replaced. It reads none without TLS, and no authorities that it need not trust.
        let url = address.options().host("localhost").username("any").to_url_lossy();
        let mode = address.0.get_ssl_mode();
        let is_read = |name: &str| match mode {
            PgSslMode::Disable | PgSslMode::Allow => false,
            PgSslMode::Prefer | PgSslMode::Require => name != "sslrootcert",
            PgSslMode::VerifyCa | PgSslMode::VerifyFull => true,
        };
        ["sslrootcert", "sslcert", "sslkey"].map(|name| {
            let (_, value) = url.query_pairs().find(|(known, _)| known == name && is_read(name))?;
            value.strip_prefix("file: ").map(PathBuf::from) // otherwise a variable holds the PEM itself
        })
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

/// Reasons why a text is not a database URL. None shows a part of it, which may be a password.
const SCHEMES: &str = "the database URL must begin with sqlite:// or postgres://";
const NO_PATH: &str = "the database URL must name a file, as in sqlite://data/petstore.db";
const PLAIN_FILE: &str = "the database URL of a file must not have parameters, or a second scheme";
const NO_DATABASE: &str =
    "the database URL must name a database, as in postgres://petstore@localhost/petstore";
const PARAMETERS: &str = "a postgres:// URL may have the parameters sslmode, sslrootcert, sslcert, sslkey, \
    host, port, user, password, dbname and application_name, and no others";
const MODE: &str = "PGSSLMODE must be one of disable, allow, prefer, require, verify-ca and verify-full";
const PORT: &str = "PGPORT must be a number up to 65535";
const POSTGRES_FORM: &str = "the database URL must be of the form \
    postgres://USER:PASSWORD@HOST:PORT/DATABASE, special characters in its parts percent-encoded";

impl FromStr for DatabaseUrl {
    type Err = &'static str;

    fn from_str(url: &str) -> Result<Self, Self::Err> {
        match url.split_once("://").ok_or(SCHEMES)? {
            ("sqlite", "" | ":memory:") => Err(NO_PATH),
            ("sqlite", path) if path.contains('?') || path.starts_with("file:") => Err(PLAIN_FILE),
            ("sqlite", path) => Ok(Self::Sqlite(path.into())),
            ("postgres" | "postgresql", _) => Ok(Self::Postgres(Box::new(url.parse()?))),
            _ => Err(SCHEMES),
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
        match (self.socket(), self.0.get_host(), self.0.get_port()) {
            (Some(socket), ..) => socket.display().to_string(),
            (None, host, port) if host.contains(':') => format!("[{host}]:{port}"),
            (None, host, port) => format!("{host}:{port}"),
        }
    }

    /// Returns the folder of the Unix socket, which may also stand in place of a host name.
    fn socket(&self) -> Option<&Path> {
        let host = Path::new(self.0.get_host());
        self.0.get_socket().map(PathBuf::as_path).or_else(|| host.is_absolute().then_some(host))
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
    type Err = &'static str;

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
            return Err(PARAMETERS);
        }
        // The driver takes what it does not know for none given, and would do without TLS.
        let given = |name| env::var_os(name).unwrap_or_default().to_string_lossy().into_owned();
        let (mode, port) = (given("PGSSLMODE"), given("PGPORT"));
        if !(mode.is_empty() || mode.parse::<PgSslMode>().is_ok()) {
            return Err(MODE);
        }
        if !(port.is_empty() || port.parse::<u16>().is_ok()) {
            return Err(PORT);
        }
        // The driver's error may repeat parts of the URL.
        let options = parse(url).map_err(|_| POSTGRES_FORM)?;
        match options.get_database() {
            None | Some("") => Err(NO_DATABASE),
            Some(_) => Ok(Self(options.disable_statement_logging())),
        }
    }
}

/// Parses a URL with the driver, and what libpq takes and the driver does not: an IPv6 address, and no host
/// after a user or before a port, as in `postgres://USER:PASSWORD@/DATABASE?host=/FOLDER`.
fn parse(url: &str) -> Result<PgConnectOptions, sqlx::Error> {
    let (scheme, rest) = url.split_once("://").unwrap_or_default();
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let host_at = authority.rfind('@').map_or(0, |at| at + 1);
    let (user, host) = authority.split_at(host_at);
    let options = if !authority.is_empty() && (host.is_empty() || host.starts_with(':')) {
        let default = PgConnectOptions::new_without_pgpass();
        let options: PgConnectOptions = format!("{scheme}://{user}localhost{host}{path}").parse()?;
        if path.split(['?', '&']).any(|pair| pair.starts_with("host=")) {
            options
        } else {
            options.host(default.get_host())
        }
    } else {
        url.parse()?
    };
    let address = options.get_host().strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    Ok(match address.map(str::to_owned) {
        Some(address) => options.host(&address),
        None => options,
    })
}

/// Formats the URL without password and parameters.
impl fmt::Display for PostgresAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (user, database) = (self.user(), self.database());
        match self.socket() {
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
            (
                "postgres://pet:SE%40CRET@/shop?host=/cloudsql/a:b:c",
                "postgres://pet@localhost/shop?host=/cloudsql/a:b:c",
            ),
            ("postgres://pet:SECRET@:6543/shop?host=/run", "postgres://pet@localhost/shop?host=/run"),
            ("postgres://pet:SECRET@/shop?host=db.example", "postgres://pet@db.example:5432/shop"),
            ("postgres://pet:SECRET@/shop?host=::1&port=6543", "postgres://pet@[::1]:6543/shop"),
            ("postgres://pet:SECRET@/shop?host=[::1]", "postgres://pet@[::1]:5432/shop"),
            ("postgres://pet@%2Frun%2Fpostgresql/shop", "postgres://pet@localhost/shop?host=/run/postgresql"),
        ];
        for (url, shown) in cases {
            let parsed: DatabaseUrl = url.parse().unwrap();
            assert_eq!(
                (parsed.to_string(), format!("{parsed:?}")),
                (shown.to_owned(), format!("Postgres({shown})"))
            );
            assert_eq!(parsed.sqlite_file(), None);
        }
    }

    #[test]
    fn the_driver_gets_an_ipv6_address_without_brackets_and_the_whole_login() {
        for url in ["postgres://pet:a%3Ab@[::1]:6543/shop", "postgres://pet:a%3Ab@:6543/shop?host=::1"] {
            let options = parse(url).unwrap();
            assert_eq!((options.get_host(), options.get_port()), ("::1", 6_543), "{url}");
            assert_eq!(options.get_username(), "pet");
            assert!(format!("{options:?}").contains(r#"password: Some("a:b")"#), "{options:?}");
        }
        let default = PgConnectOptions::new_without_pgpass();
        for url in ["postgres://pet@/shop", "postgres:///shop", "postgres://pet@:5432/shop"] {
            assert_eq!(parse(url).unwrap().get_host(), default.get_host(), "as libpq's default: {url}");
        }
    }

    #[test]
    fn the_files_that_are_read_for_tls_are_known() {
        let files = |parameters: &str| {
            let url = format!("postgres://pet@h/shop?sslrootcert=/ca%20b&sslcert=c&sslkey=k&{parameters}");
            url.parse::<DatabaseUrl>()
                .unwrap()
                .tls_files()
                .map(|file| file.map(|it| it.display().to_string()))
        };
        let [ca, certificate, key] = ["/ca b", "c", "k"].map(|name| Some(name.to_owned()));
        for mode in ["verify-full", "verify-ca"] {
            assert_eq!(files(&format!("sslmode={mode}")), [&ca, &certificate, &key].map(Clone::clone));
        }
        for mode in ["", "sslmode=require"] {
            assert_eq!(files(mode), [&None, &certificate, &key].map(Clone::clone));
        }
        assert_eq!(files("sslmode=disable"), [None, None, None]);
    }

    #[test]
    fn the_files_are_known_wherever_the_database_is_and_whoever_logs_in() {
        for place in
            ["pet@[::1]:5432/shop", "pet@/shop?host=/run/postgresql", "a%2Fb%40%5Bc@h/shop", "h/shop"]
        {
            let mark = if place.contains('?') { '&' } else { '?' };
            let url = format!("postgres://{place}{mark}sslmode=require&sslcert=c&sslkey=k");
            let files = url.parse::<DatabaseUrl>().unwrap().tls_files();
            assert_eq!(files, [None, Some("c".into()), Some("k".into())], "{place}");
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
            ("mysql://u:secret@h/db", SCHEMES),
            ("u:secret@h://db", SCHEMES),
            ("data/petstore.db", SCHEMES),
            ("sqlite://", NO_PATH),
            ("sqlite://:memory:", NO_PATH),
            ("sqlite://pets.db?key=secret", PLAIN_FILE),
            ("sqlite://file:pets.db", PLAIN_FILE),
            ("postgres://u:secret@h", NO_DATABASE),
            ("postgres://u:secret@h:port/db", POSTGRES_FORM),
            ("postgres://u:sec/ret@h/db", POSTGRES_FORM),
            ("postgres://u@h/db?sslmode=secret", POSTGRES_FORM),
            ("postgres://u@h/db?pasword=secret", PARAMETERS),
            ("postgres://u@h/db?pass%77ord=secret", PARAMETERS),
            ("postgres://u@h/db?options=-csecret", PARAMETERS),
        ];
        for (url, expected) in cases {
            let refusal = url.parse::<DatabaseUrl>().unwrap_err();
            assert_eq!(refusal, expected, "{url}");
            assert!(!refusal.contains("secret"), "{refusal}");
        }
    }
}
