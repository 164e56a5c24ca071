//! Address of the store, and its use by a server.

use std::path::{Path, PathBuf};

use petstore_database::{DatabaseUrl, OpenError};

use super::{
    InvalidSetting,
    files::{self, SecretUrl},
    value::{is_on, whole_number},
};

/// Address of the store.
#[derive(Clone, Debug, clap::Args)]
pub struct DatabaseSettings {
    /// URL of the store: `sqlite://PATH`, or `sqlite:///PATH` from the root, or
    /// `postgres://USER:PASSWORD@HOST:PORT/DATABASE`. A URL with a password is accepted only from
    /// the variable or from --database-url-file
    #[arg(long, env = "PETSTORE_DATABASE_URL", hide_env_values = true, value_name = "URL")]
    #[arg(default_value = "sqlite://data/petstore.db")]
    #[arg(value_parser = SecretUrl::<DatabaseUrl>::default())]
    pub database_url: DatabaseUrl,

    /// File with the store's URL, mode 0600
    #[arg(long, env = "PETSTORE_DATABASE_URL_FILE", conflicts_with = "database_url", value_name = "FILE")]
    pub database_url_file: Option<PathBuf>,
}

impl DatabaseSettings {
    /// Returns the store's URL, from the file if one is given.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, is open to others or holds no URL, or a file that the URL names cannot be
    /// used.
    pub fn url(&self) -> Result<DatabaseUrl, InvalidSetting> {
        let given = std::slice::from_ref(&self.database_url);
        let (setting, urls) =
            urls(given, ["--database-url", "--database-url-file"], self.database_url_file.as_deref())?;
        let one = <[DatabaseUrl; 1]>::try_from(urls);
        one.map(|[url]| url).map_err(|_| InvalidSetting::new(setting, "must hold one URL"))
    }
}

/// Address of the store, and its use by a server.
#[derive(Clone, Debug, clap::Args)]
pub struct StoreSettings {
    /// Address of the store.
    #[command(flatten)]
    pub database: DatabaseSettings,

    /// URL of a streaming replica of the PostgreSQL store, from which pets are read; lists may be up to 10
    /// seconds old. May be repeated; separated by commas in the variable. A URL with a password is accepted
    /// only from the variable or from --replica-url-file
    #[arg(
        long,
        env = "PETSTORE_REPLICA_URL",
        hide_env_values = true,
        value_delimiter = ',',
        value_name = "URL"
    )]
    #[arg(value_parser = SecretUrl::<DatabaseUrl>::default())]
    pub replica_url: Vec<DatabaseUrl>,

    /// File with the URLs of read replicas, one per line, mode 0600
    #[arg(long, env = "PETSTORE_REPLICA_URL_FILE", conflicts_with = "replica_url", value_name = "FILE")]
    pub replica_url_file: Option<PathBuf>,

    /// Number of recently read pets that a core caches in memory, each for a minute; 0 turns the cache off
    #[arg(long, env = "PETSTORE_PET_CACHE", default_value_t = 10_000, value_name = "PETS")]
    #[arg(value_parser = whole_number(0..=u32::MAX))]
    pub pet_cache: u32,

    /// Do not create or migrate the store, and refuse one whose schema is not up to date; for installations
    /// that run `petstore migrate`
    #[arg(long, env = "PETSTORE_NO_MIGRATE", value_parser = is_on)]
    pub no_migrate: bool,
}

impl StoreSettings {
    /// Returns the URLs of the replicas of that store, from the file if one is given.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or is open to others, or if a URL cannot be that of a replica, or names a
    /// file that cannot be used.
    pub fn replicas(&self, store: &DatabaseUrl) -> Result<Vec<DatabaseUrl>, InvalidSetting> {
        let flags = ["--replica-url", "--replica-url-file"];
        let (setting, urls) = urls(&self.replica_url, flags, self.replica_url_file.as_deref())?;
        if urls.iter().all(|url| url.may_replicate(store)) {
            return Ok(urls);
        }
        Err(InvalidSetting::new(setting, OpenError::NotReplicated.to_string()))
    }
}

/// Returns the URLs of a setting or its file, whose own files can be used, and the flag that names them.
fn urls(
    given: &[DatabaseUrl],
    [flag, file_flag]: [&'static str; 2],
    file: Option<&Path>,
) -> Result<(&'static str, Vec<DatabaseUrl>), InvalidSetting> {
    let urls = files::urls(given, (file_flag, file))?;
    let setting = if file.is_some() { file_flag } else { flag };
    urls.iter().try_for_each(|url| files::check_tls_files(setting, url))?;
    Ok((setting, urls))
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

    #[test]
    fn the_store_is_in_the_data_folder_by_default() {
        assert_eq!(parse(&[]).unwrap().database.url().unwrap().to_string(), "sqlite://data/petstore.db");
        let program = parse(&["--database-url", "sqlite:///srv/a.db"]).unwrap();
        assert_eq!(program.database.url().unwrap().to_string(), "sqlite:///srv/a.db");
    }

    #[test]
    fn the_file_holds_one_url_and_is_closed_to_others() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("url");
        fs::write(&file, "sqlite:///srv/b.db\n").unwrap();
        let settings = parse(&["--database-url-file", file.to_str().unwrap()]).unwrap().database;

        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        let refusal = settings.url().unwrap_err().to_string();
        assert!(refusal.starts_with("--database-url-file: ") && refusal.contains("0600"), "{refusal}");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(settings.url().unwrap().to_string(), "sqlite:///srv/b.db");
        fs::write(&file, "sqlite://a.db\nsqlite://b.db\n").unwrap();
        assert!(settings.url().unwrap_err().to_string().contains("one URL"));
    }
}
