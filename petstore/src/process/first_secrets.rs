//! The first API key and the first operator token of a new store, so that the service can be tried at once.
//!
//! The order decides what a crash can leave behind. The file is written and synced first, then the account
//! with its key, or the operator, is committed. A crash in between leaves a file and a store without them:
//! the next start takes the secret from the file. So there is never an account whose key nobody has, nor an
//! operator without a token.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use petstore_api_key::{ApiKey, Environment, OperatorToken};
use petstore_clock::Clock;
use petstore_core::{DatabaseUrl, domain::PetStoreError, store::Store};
use tokio::task::spawn_blocking;

use super::StartError;
use crate::settings::owned_file::{self, UntrustedFile};

/// The names of the files, beside the database.
const KEY_FILE: &str = "first-api-key";
const TOKEN_FILE: &str = "first-operator-token";

/// Why there is no first key or token.
#[derive(Debug, thiserror::Error)]
pub enum FirstSecretError {
    /// The file cannot be read or written.
    #[error("the file cannot be written: {0}")]
    File(#[source] io::Error),
    /// The file is there already, and is not what an interrupted start would have left.
    #[error("there is a file of that name already: move it away")]
    InTheWay,
    /// Another user has put it there, and may know the key in it.
    #[error("the file that is there {0}: move it away")]
    OfAnother(UntrustedFile),
    /// The store refuses the account or the operator.
    #[error(transparent)]
    Store(#[from] PetStoreError),
}

/// A secret that is kept in a file.
trait Secret: Sized + Send + 'static {
    fn parse(written: &str) -> Option<Self>;
    fn expose(&self) -> &str;
}

impl Secret for ApiKey {
    fn parse(written: &str) -> Option<Self> {
        Self::parse(written)
    }

    fn expose(&self) -> &str {
        self.expose()
    }
}

impl Secret for OperatorToken {
    fn parse(written: &str) -> Option<Self> {
        Self::parse(written)
    }

    fn expose(&self) -> &str {
        self.expose()
    }
}

/// Creates the first account of a store in a file that has none. Returns the file with the account's key.
pub(crate) async fn create_account(
    store: &Store,
    url: &DatabaseUrl,
    environment: Environment,
    clock: &Clock,
) -> Result<Option<PathBuf>, StartError> {
    let Some(file) = beside(url, KEY_FILE) else { return Ok(None) };
    let create = async {
        if !store.accounts().list().await?.is_empty() {
            return Ok(false);
        }
        let is_of_it = move |key: &ApiKey| key.environment() == environment;
        let key = keep(file.clone(), move || ApiKey::generate(environment), is_of_it).await?;
        // Whatever happens from here on, the file stays: if there is no account yet, the next start makes one
        // for this key; and if another process was faster, it may be with this key.
        Ok(store.accounts().create_first(&key, clock.now()).await?.is_some())
    };
    match create.await {
        Ok(is_created) => Ok(is_created.then_some(file)),
        Err(source) => Err(StartError::FirstSecret { what: "API key", file, source }),
    }
}

/// Creates the first operator of a store in a file that has none. Returns the file with the operator's token.
pub(crate) async fn create_operator(
    store: &Store,
    url: &DatabaseUrl,
    clock: &Clock,
) -> Result<Option<PathBuf>, StartError> {
    let Some(file) = beside(url, TOKEN_FILE) else { return Ok(None) };
    let create = async {
        if !store.operators().is_empty().await? {
            return Ok(false);
        }
        let token = keep(file.clone(), OperatorToken::generate, |_| true).await?;
        Ok(store.operators().create_first(&token, clock.now()).await?.is_some())
    };
    match create.await {
        Ok(is_created) => Ok(is_created.then_some(file)),
        Err(source) => Err(StartError::FirstSecret { what: "operator token", file, source }),
    }
}

/// A file beside the database. `None` for a database server: whoever has one creates accounts and operators
/// explicitly, and there is no folder beside it.
fn beside(url: &DatabaseUrl, name: &str) -> Option<PathBuf> {
    url.sqlite_file().map(|store| store.with_file_name(name))
}

/// Keeps a new secret in a new file, or takes the one that an interrupted start left there, if it is
/// acceptable.
async fn keep<S: Secret>(
    file: PathBuf,
    generate: impl FnOnce() -> S + Send + 'static,
    is_acceptable: impl FnOnce(&S) -> bool + Send + 'static,
) -> Result<S, FirstSecretError> {
    let kept = spawn_blocking(move || keep_blocking(&file, generate, is_acceptable)).await;
    kept.map_err(|panic| FirstSecretError::File(io::Error::other(panic)))?
}

fn keep_blocking<S: Secret>(
    file: &Path,
    generate: impl FnOnce() -> S,
    is_acceptable: impl FnOnce(&S) -> bool,
) -> Result<S, FirstSecretError> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(file) {
        Ok(open) => {
            let secret = generate();
            if let Err(error) = write(open, file, &secret) {
                let _ = fs::remove_file(file); // half a secret would prevent the next start
                return Err(FirstSecretError::File(error));
            }
            Ok(secret)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => left_behind(file, is_acceptable),
        Err(error) => Err(FirstSecretError::File(error)),
    }
}

fn write<S: Secret>(mut open: File, file: &Path, secret: &S) -> io::Result<()> {
    writeln!(open, "{}", secret.expose())?;
    open.sync_all()?;
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all() // the file's name is in the folder
}

/// The secret in a file that only its owner could read or write.
fn left_behind<S: Secret>(
    file: &Path,
    is_acceptable: impl FnOnce(&S) -> bool,
) -> Result<S, FirstSecretError> {
    if !fs::symlink_metadata(file).map_err(FirstSecretError::File)?.is_file() {
        return Err(FirstSecretError::InTheWay);
    }
    let open = File::open(file).map_err(FirstSecretError::File)?;
    let metadata = open.metadata().map_err(FirstSecretError::File)?;
    owned_file::check(&metadata).map_err(|error| match error {
        UntrustedFile::OpenToOthers => FirstSecretError::InTheWay,
        UntrustedFile::OfAnother { .. } => FirstSecretError::OfAnother(error),
    })?;
    let mut written = Vec::new();
    let longer_than_a_secret = 1_024;
    open.take(longer_than_a_secret).read_to_end(&mut written).map_err(FirstSecretError::File)?;
    str::from_utf8(&written)
        .ok()
        .and_then(|written| S::parse(written.trim_end()))
        .filter(is_acceptable)
        .ok_or(FirstSecretError::InTheWay)
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
        create_account(store, url, Environment::Production, &Clock::system()).await
    }

    fn kept_key(file: &Path, environment: Environment) -> Result<ApiKey, FirstSecretError> {
        keep_blocking(file, || ApiKey::generate(environment), |key: &ApiKey| key.environment() == environment)
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
    async fn a_new_store_has_one_operator_whose_token_is_in_a_file_that_only_its_owner_can_read() {
        let folder = TempDir::new().unwrap();
        let (store, url) = new_store(&folder).await;
        let clock = Clock::system();
        let file = create_operator(&store, &url, &clock).await.unwrap().unwrap();
        assert_eq!(file, folder.path().join("first-operator-token"));
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
        assert!(OperatorToken::parse(fs::read_to_string(&file).unwrap().trim_end()).is_some());
        assert_eq!(create_operator(&store, &url, &clock).await.unwrap(), None, "there is an operator now");
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
        let key = kept_key(&file, Environment::Production).unwrap();

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
            let refused = matches!(kept_key(&file, Environment::Production), Err(FirstSecretError::InTheWay));
            refused && fs::read(&file).unwrap() == before
        };
        kept_key(&file, Environment::Staging).unwrap();
        assert!(is_in_the_way(), "a key of the other environment");
        fs::remove_file(&file).unwrap();

        kept_key(&file, Environment::Production).unwrap();
        assert!(!is_in_the_way());
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(is_in_the_way(), "readable by others");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&file, [0xff, 0x00]).unwrap();
        assert!(is_in_the_way(), "no key");
    }
}
