//! The first API key of a new store, so that the service can be tried at once.
//!
//! The order decides what a crash can leave behind. The file is written and synced first, then account and
//! key are committed together. A crash in between leaves a file and a store without accounts: the next start
//! takes the key from the file. So there is never an account whose key nobody has.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use petstore_api_key::{ApiKey, Environment};
use petstore_clock::Clock;
use petstore_core::{DatabaseUrl, domain::PetStoreError, store::Store};
use tokio::task::spawn_blocking;

use super::StartError;
use crate::settings::owned_file::{self, UntrustedFile};

/// The file's name, beside the database.
const FILE_NAME: &str = "first-api-key";

/// Why there is no first key.
#[derive(Debug, thiserror::Error)]
pub enum FirstKeyError {
    /// The file cannot be read or written.
    #[error("the file cannot be written: {0}")]
    File(#[source] io::Error),
    /// The file is there already, and is not what an interrupted start would have left.
    #[error("there is a file of that name already: move it away")]
    InTheWay,
    /// Another user has put it there, and may know the key in it.
    #[error("the file that is there {0}: move it away")]
    OfAnother(UntrustedFile),
    /// The store refuses the account.
    #[error(transparent)]
    Account(#[from] PetStoreError),
}

/// Gives a store in a file without accounts its first account, and tells in which file the key of that is.
pub(crate) async fn make(
    store: &Store,
    url: &DatabaseUrl,
    environment: Environment,
    clock: &Clock,
) -> Result<Option<PathBuf>, StartError> {
    // Whoever has a database server has made accounts of their own, and there is no folder beside it.
    let Some(store_file) = url.sqlite_file() else { return Ok(None) };
    let file = store_file.with_file_name(FILE_NAME);
    match try_make(store, file.clone(), environment, clock).await {
        Ok(is_made) => Ok(is_made.then_some(file)),
        Err(source) => Err(StartError::FirstKey { file, source }),
    }
}

async fn try_make(
    store: &Store,
    file: PathBuf,
    environment: Environment,
    clock: &Clock,
) -> Result<bool, FirstKeyError> {
    if !store.accounts().list().await?.is_empty() {
        return Ok(false);
    }
    let kept = spawn_blocking(move || keep(&file, environment)).await;
    let key = kept.map_err(|panic| FirstKeyError::File(io::Error::other(panic)))??;
    // Whatever happens from here on, the file stays: if there is no account yet, the next start makes one for
    // this key; and if another process was faster, it may be with this key.
    Ok(store.accounts().create_first(&key, clock.now()).await?.is_some())
}

/// Keeps a new key in a new file, or takes the key that an interrupted start left there.
fn keep(file: &Path, environment: Environment) -> Result<ApiKey, FirstKeyError> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(file) {
        Ok(open) => {
            let key = ApiKey::generate(environment);
            if let Err(error) = write(open, file, &key) {
                let _ = fs::remove_file(file); // half a key would be in the way of the next start
                return Err(FirstKeyError::File(error));
            }
            Ok(key)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => left_behind(file, environment),
        Err(error) => Err(FirstKeyError::File(error)),
    }
}

fn write(mut open: File, file: &Path, key: &ApiKey) -> io::Result<()> {
    writeln!(open, "{}", key.expose())?;
    open.sync_all()?;
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all() // the file's name is in the folder
}

/// The key in a file that only its owner could read or write.
fn left_behind(file: &Path, environment: Environment) -> Result<ApiKey, FirstKeyError> {
    if !fs::symlink_metadata(file).map_err(FirstKeyError::File)?.is_file() {
        return Err(FirstKeyError::InTheWay);
    }
    let open = File::open(file).map_err(FirstKeyError::File)?;
    let metadata = open.metadata().map_err(FirstKeyError::File)?;
    owned_file::check(&metadata).map_err(|error| match error {
        UntrustedFile::OpenToOthers => FirstKeyError::InTheWay,
        UntrustedFile::OfAnother { .. } => FirstKeyError::OfAnother(error),
    })?;
    let mut written = Vec::new();
    let longer_than_a_key = 1_024;
    open.take(longer_than_a_key).read_to_end(&mut written).map_err(FirstKeyError::File)?;
    str::from_utf8(&written)
        .ok()
        .and_then(|written| ApiKey::parse(written.trim_end()))
        .filter(|key| key.environment() == environment)
        .ok_or(FirstKeyError::InTheWay)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use petstore_core::{domain::AccountName, store};
    use tempfile::TempDir;

    use super::*;

    async fn new_store(folder: &TempDir) -> (Store, DatabaseUrl) {
        let url: DatabaseUrl = format!("sqlite://{}/petstore.db", folder.path().display()).parse().unwrap();
        let options = store::OpenOptions { migrate: true, quick_check: false };
        (Store::open(&url, options).await.unwrap(), url)
    }

    async fn made(store: &Store, url: &DatabaseUrl) -> Result<Option<PathBuf>, StartError> {
        make(store, url, Environment::Production, &Clock::system()).await
    }

    #[tokio::test]
    async fn a_new_store_has_one_account_whose_key_is_in_a_file_that_only_its_owner_can_read() {
        let folder = TempDir::new().unwrap();
        let (store, url) = new_store(&folder).await;
        let file = made(&store, &url).await.unwrap().unwrap();

        assert_eq!(file, folder.path().join("first-api-key"));
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
        let key = ApiKey::parse(fs::read_to_string(&file).unwrap().trim_end()).unwrap();
        let first = AccountName::parse("first").unwrap();
        let records = store.keys().list(Some(&first)).await.unwrap();
        assert_eq!(records.len(), 1);
        assert_eq!(records[0].last_four, key.last_four());
        assert_eq!(made(&store, &url).await.unwrap(), None, "the store is no longer new");
    }

    #[tokio::test]
    async fn without_the_file_there_is_no_account() {
        let folder = TempDir::new().unwrap();
        let (store, url) = new_store(&folder).await;
        fs::create_dir(folder.path().join("first-api-key")).unwrap();

        let refusal = made(&store, &url).await.unwrap_err().to_string();
        assert!(refusal.contains("first-api-key"), "{refusal}");
        assert_eq!(store.accounts().list().await.unwrap(), []);
    }

    #[tokio::test]
    async fn a_start_that_was_interrupted_after_the_file_was_written_is_completed_by_the_next() {
        let folder = TempDir::new().unwrap();
        let (store, url) = new_store(&folder).await;
        let file = folder.path().join("first-api-key");
        let key = keep(&file, Environment::Production).unwrap();

        assert_eq!(made(&store, &url).await.unwrap(), Some(file.clone()));
        assert_eq!(fs::read_to_string(file).unwrap().trim_end(), key.expose());
        let records = store.keys().list(None).await.unwrap();
        assert_eq!(records.len(), 1);
        assert_eq!(records[0].last_four, key.last_four());
    }

    #[test]
    fn a_file_that_others_can_read_or_that_holds_no_key_of_this_environment_is_left_alone() {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("first-api-key");
        let is_in_the_way = || {
            let before = fs::read(&file).unwrap();
            let refused = matches!(keep(&file, Environment::Production), Err(FirstKeyError::InTheWay));
            refused && fs::read(&file).unwrap() == before
        };
        keep(&file, Environment::Staging).unwrap();
        assert!(is_in_the_way(), "a key of the other environment");
        fs::remove_file(&file).unwrap();

        keep(&file, Environment::Production).unwrap();
        assert!(!is_in_the_way());
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(is_in_the_way(), "readable by others");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&file, [0xff, 0x00]).unwrap();
        assert!(is_in_the_way(), "no key");
    }
}
