//! Where the store is.

use std::{
    ffi::OsStr,
    fs::File,
    io::{self, Read},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use clap::{Arg, Command, builder::TypedValueParser, error::ErrorKind, parser::ValueSource};
use petstore_core::DatabaseUrl;

use super::InvalidSetting;

/// No URL is longer; a file that is, is not the right one.
const LONGEST_FILE: u64 = 64 * 1024;

/// Where the store is.
#[derive(Clone, Debug, clap::Args)]
pub struct DatabaseSettings {
    /// The store: `sqlite://PATH`, or `sqlite:///PATH` from the root. A URL with a password is taken from the
    /// variable or from --database-url-file only
    #[arg(
        long,
        env = "PETSTORE_DATABASE_URL",
        hide_env_values = true,
        default_value = "sqlite://data/petstore.db",
        value_parser = UrlParser,
        value_name = "URL"
    )]
    pub database_url: DatabaseUrl,

    /// A file that holds the store's URL; nobody but its owner may have access to it (mode 0600)
    #[arg(long, env = "PETSTORE_DATABASE_URL_FILE", conflicts_with = "database_url", value_name = "FILE")]
    pub database_url_file: Option<PathBuf>,
}

impl DatabaseSettings {
    /// The store's URL, from the file if one is given.
    ///
    /// # Errors
    ///
    /// When the file cannot be read, is open to others or holds no URL.
    pub fn url(&self) -> Result<DatabaseUrl, InvalidSetting> {
        match &self.database_url_file {
            None => Ok(self.database_url.clone()),
            Some(file) => read(file).map_err(|reason| InvalidSetting::new("--database-url-file", reason)),
        }
    }
}

fn read(path: &Path) -> Result<DatabaseUrl, String> {
    let unreadable = |error: io::Error| format!("cannot read {}: {}", path.display(), error.kind());
    let file = File::open(path).map_err(unreadable)?;
    let metadata = file.metadata().map_err(unreadable)?; // of what was opened, so that no other file slips in
    if !metadata.is_file() || metadata.mode() & 0o077 != 0 {
        return Err(format!("{} must be a file of mode 0600 or stricter", path.display()));
    }
    let mut written = String::new();
    file.take(LONGEST_FILE).read_to_string(&mut written).map_err(unreadable)?;
    written.trim().parse().map_err(|error| format!("in {}: {error}", path.display()))
}

/// Parses the URL without ever repeating it in an error, and refuses a password among the arguments, where
/// every user of the machine can read it.
#[derive(Clone, Copy, Debug)]
struct UrlParser;

impl TypedValueParser for UrlParser {
    type Value = DatabaseUrl;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<DatabaseUrl, clap::Error> {
        self.parse_ref_(command, arg, value, ValueSource::CommandLine)
    }

    fn parse_ref_(
        &self,
        _command: &Command,
        _arg: Option<&Arg>,
        value: &OsStr,
        source: ValueSource,
    ) -> Result<DatabaseUrl, clap::Error> {
        let refused = |reason: String| {
            clap::Error::raw(ErrorKind::ValueValidation, format!("--database-url: {reason}\n"))
        };
        let written = value.to_str().ok_or_else(|| refused("must be UTF-8".to_owned()))?;
        if source == ValueSource::CommandLine && carries_password(written) {
            return Err(refused(
                "a URL with a password must come from PETSTORE_DATABASE_URL or --database-url-file"
                    .to_owned(),
            ));
        }
        written.parse().map_err(|error: <DatabaseUrl as std::str::FromStr>::Err| refused(error.to_string()))
    }
}

/// Whether a URL names a password, before the host or as a parameter. In doubt, yes.
fn carries_password(url: &str) -> bool {
    let Some((scheme, rest)) = url.split_once("://") else { return false };
    if scheme.eq_ignore_ascii_case("sqlite") {
        return false; // it is a path
    }
    let user_info = rest.rsplit_once('@').map_or("", |(user_info, _)| user_info);
    user_info.contains(':') || rest.to_ascii_lowercase().contains("password=")
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Program {
        #[command(flatten)]
        database: DatabaseSettings,
    }

    fn parse(args: &[&str]) -> Result<Program, clap::Error> {
        Program::try_parse_from(["petstore"].iter().chain(args))
    }

    fn refusal(args: &[&str]) -> String {
        parse(args).unwrap_err().to_string()
    }

    #[test]
    fn the_store_is_in_the_data_folder_unless_said_otherwise() {
        assert_eq!(parse(&[]).unwrap().database.url().unwrap().to_string(), "sqlite://data/petstore.db");
        let program = parse(&["--database-url", "sqlite:///srv/a.db"]).unwrap();
        assert_eq!(program.database.url().unwrap().to_string(), "sqlite:///srv/a.db");
    }

    #[test]
    fn a_password_on_the_command_line_is_refused_and_not_repeated() {
        for url in [
            "postgres://petstore:SECRET@localhost/petstore",
            "postgres://petstore:SEC/RET@localhost/petstore",
            "postgresql://localhost/petstore?user=petstore&Password=SECRET",
            "rediss://:SECRET@localhost",
        ] {
            let refusal = refusal(&["--database-url", url]);
            assert!(refusal.contains("--database-url: a URL with a password must come from"), "{refusal}");
            assert!(!refusal.contains("SEC"), "{refusal}");
        }
    }

    #[test]
    fn a_url_of_another_kind_is_refused_and_not_repeated() {
        let refusal = refusal(&["--database-url", "mysql://SECRET@localhost/petstore"]);
        assert!(refusal.contains("--database-url: "), "{refusal}");
        assert!(!refusal.contains("SECRET"), "{refusal}");
    }

    #[test]
    fn a_colon_in_the_path_of_a_sqlite_file_is_no_password() {
        assert!(parse(&["--database-url", "sqlite://a:b@c.db"]).is_ok());
    }

    #[test]
    fn the_file_of_the_url_must_be_closed_to_others() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("url");
        fs::write(&file, "sqlite:///srv/b.db\n").unwrap();
        let settings = parse(&["--database-url-file", file.to_str().unwrap()]).unwrap().database;

        for mode in [0o644, 0o640, 0o604, 0o620] {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            let refusal = settings.url().unwrap_err().to_string();
            assert!(refusal.starts_with("--database-url-file: ") && refusal.contains("0600"), "{refusal}");
        }
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(settings.url().unwrap().to_string(), "sqlite:///srv/b.db");
    }

    #[test]
    fn a_missing_file_is_named() {
        let settings = parse(&["--database-url-file", "/nonexistent/url"]).unwrap().database;
        let refusal = settings.url().unwrap_err().to_string();
        assert_eq!(refusal, "--database-url-file: cannot read /nonexistent/url: entity not found");
    }

    #[test]
    fn url_and_file_together_are_refused() {
        assert!(
            refusal(&["--database-url", "sqlite://a.db", "--database-url-file", "b"])
                .contains("cannot be used with")
        );
    }
}
