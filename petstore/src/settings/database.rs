//! Address of the store.

use std::path::{Path, PathBuf};

use petstore_core::DatabaseUrl;

use super::{
    InvalidSetting,
    secret_url::{self, SecretUrl},
};

/// Address of the store.
#[derive(Clone, Debug, clap::Args)]
pub struct DatabaseSettings {
    /// The store: `sqlite://PATH`, or `sqlite:///PATH` from the root, or
    /// `postgres://USER:PASSWORD@HOST:PORT/DATABASE`. A URL with a password is accepted only from
    /// the variable or from --database-url-file
    #[arg(long, env = "PETSTORE_DATABASE_URL", hide_env_values = true, value_name = "URL")]
    #[arg(default_value = "sqlite://data/petstore.db")]
    #[arg(value_parser = SecretUrl::<DatabaseUrl>::new("database-url"))]
    pub database_url: DatabaseUrl,

    /// A file with the store's URL. Only its owner may have access to it (mode 0600)
    #[arg(long, env = "PETSTORE_DATABASE_URL_FILE", conflicts_with = "database_url", value_name = "FILE")]
    pub database_url_file: Option<PathBuf>,
}

impl DatabaseSettings {
    /// Returns the store's URL, from the file if one is given.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, is open to others or holds no URL.
    pub fn url(&self) -> Result<DatabaseUrl, InvalidSetting> {
        match &self.database_url_file {
            None => Ok(self.database_url.clone()),
            Some(file) => read(file).map_err(|reason| InvalidSetting::new("--database-url-file", reason)),
        }
    }
}

fn read(path: &Path) -> Result<DatabaseUrl, String> {
    match <[DatabaseUrl; 1]>::try_from(secret_url::read(path)?) {
        Ok([url]) => Ok(url),
        Err(_) => Err(format!("{} must hold one URL", path.display())),
    }
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
    fn the_store_is_in_the_data_folder_by_default() {
        assert_eq!(parse(&[]).unwrap().database.url().unwrap().to_string(), "sqlite://data/petstore.db");
        let program = parse(&["--database-url", "sqlite:///srv/a.db"]).unwrap();
        assert_eq!(program.database.url().unwrap().to_string(), "sqlite:///srv/a.db");
    }

    #[test]
    fn a_password_on_the_command_line_is_refused_and_not_repeated() {
        let refusal = refusal(&["--database-url", "postgres://petstore:SECRET@localhost/petstore"]);
        assert!(refusal.contains("must come from PETSTORE_DATABASE_URL or --database-url-file"), "{refusal}");
        assert!(!refusal.contains("SECRET"), "{refusal}");
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

    #[test]
    fn url_and_file_together_are_refused() {
        assert!(
            refusal(&["--database-url", "sqlite://a.db", "--database-url-file", "b"])
                .contains("cannot be used with")
        );
    }
}
