//! The first API key and the first operator token of a new store, so that the service can be tried at once.
//!
//! A secret is written to a draft beside the store, then the account with its key (or the operator) is
//! committed, then the draft is renamed. Each step is on the disk before the next one. So a crash leaves
//! neither an account without a key nor a key without an account: the next start completes what was committed
//! and replaces what was not. A secret is taken from a file only if the store has it, so that the secret of
//! another store is never revived.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, ErrorKind, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use petstore_admin_service::{AdminError, store::AdminStore};
use petstore_api_key::{ApiKey, OperatorToken};
use petstore_clock::{Clock, UnixMillis};
use petstore_command_line::partial_file::folder_of;
use petstore_core::store::Store;
use petstore_database::DatabaseUrl;
use tokio::task::spawn_blocking;

use super::ProcessError;

/// Reason why there is no first key or token.
#[derive(Debug, thiserror::Error)]
pub enum FirstSecretError {
    /// The file cannot be read or written.
    #[error("the file cannot be read or written: {0}")]
    File(#[from] io::Error),
    /// The file already exists.
    #[error("a file of that name exists and may belong to another store; move it away")]
    InTheWay,
    /// The store refuses the account or the operator.
    #[error(transparent)]
    Store(#[from] AdminError),
}

/// Secret that a new store begins with.
#[derive(Debug)]
pub(crate) enum FirstSecret {
    /// Key of account `first`.
    ApiKey(ApiKey),
    /// Token of operator `first`.
    OperatorToken(OperatorToken),
}

impl FirstSecret {
    /// Creates the secret of a store in a file, if the store has none of this kind. Returns the file that it
    /// is written to. Does nothing for a database server: there is no folder beside it, and its operator
    /// creates accounts and operators with commands.
    pub(crate) async fn create(
        self,
        store: &Store,
        url: &DatabaseUrl,
        clock: &Clock,
    ) -> Result<Option<PathBuf>, ProcessError> {
        let Some(path) = url.sqlite_file() else { return Ok(None) };
        let (file, secret) = self.names();
        let files = Files::new(path, file);
        match files.create(store, &self, clock).await {
            Ok(is_created) => Ok(is_created.then_some(files.secret)),
            Err(source) => Err(ProcessError::FirstSecret { secret, file: files.secret, source }),
        }
    }

    /// Returns the name of the file beside the store, and the name of the secret in messages.
    const fn names(&self) -> (&'static str, &'static str) {
        match self {
            Self::ApiKey(_) => ("first-api-key", "API key"),
            Self::OperatorToken(_) => ("first-operator-token", "operator token"),
        }
    }

    fn expose(&self) -> &str {
        match self {
            Self::ApiKey(key) => key.expose(),
            Self::OperatorToken(token) => token.expose(),
        }
    }

    /// Parses a secret of the same kind.
    fn parse(&self, written: &str) -> Option<Self> {
        match self {
            Self::ApiKey(_) => ApiKey::parse(written).map(Self::ApiKey),
            Self::OperatorToken(_) => OperatorToken::parse(written).map(Self::OperatorToken),
        }
    }

    /// Returns `true` if the store has no secret of this kind yet.
    async fn is_missing(&self, store: &Store) -> Result<bool, AdminError> {
        match self {
            Self::ApiKey(_) => Ok(!store.accounts().has_accounts().await?),
            Self::OperatorToken(_) => Ok(!AdminStore::new(store).has_operators().await?),
        }
    }

    /// Returns `true` if the store has this secret.
    async fn is_known(&self, store: &Store) -> Result<bool, AdminError> {
        match self {
            Self::ApiKey(key) => Ok(store.accounts().has_key(key).await?),
            Self::OperatorToken(token) => AdminStore::new(store).has_token(token).await,
        }
    }

    /// Adds the secret to the store. Returns `false` if another process was faster.
    async fn add(&self, store: &Store, now: UnixMillis) -> Result<bool, AdminError> {
        let store = AdminStore::new(store);
        match self {
            Self::ApiKey(key) => Ok(store.create_first_account(key, now).await?.is_some()),
            Self::OperatorToken(token) => Ok(store.create_first_operator(token, now).await?.is_some()),
        }
    }
}

/// Files of one secret.
#[derive(Clone)]
struct Files {
    /// Final file of the secret.
    secret: PathBuf,
    /// File that holds the secret until the store has it too. Its name begins with the store's, so it belongs
    /// to no other store in the folder.
    draft: PathBuf,
}

impl Files {
    fn new(store: &Path, name: &str) -> Self {
        let mut draft = store.as_os_str().to_owned();
        draft.push(format!(".{name}"));
        Self { secret: store.with_file_name(name), draft: draft.into() }
    }

    /// Creates the secret, and returns `true` if it, or one that an interrupted start has left, is in the
    /// file now.
    async fn create(
        &self,
        store: &Store,
        secret: &FirstSecret,
        clock: &Clock,
    ) -> Result<bool, FirstSecretError> {
        if self.blocking(Self::read_draft).await?.is_none() && !secret.is_missing(store).await? {
            return Ok(false);
        }
        // If several processes start at once, the first creates the secret and the others find it.
        let _lock = self.blocking(Self::lock).await?;
        if secret.is_missing(store).await? {
            let written = format!("{}\n", secret.expose());
            self.blocking(move |files| files.write_draft(&written)).await?;
            if secret.add(store, clock.now()).await? {
                self.blocking(Self::publish).await?;
                return Ok(true);
            }
        } else if let Some(draft) = self.blocking(Self::read_draft).await?
            && let Some(secret) = secret.parse(draft.trim_end())
            && secret.is_known(store).await?
        {
            self.blocking(Self::publish).await?;
            return Ok(true);
        }
        self.blocking(Self::remove_draft).await?;
        Ok(false)
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, FirstSecretError> + Send + 'static,
    ) -> Result<T, FirstSecretError> {
        let files = self.clone();
        spawn_blocking(move || work(&files)).await.map_err(io::Error::other)?
    }

    fn lock(&self) -> Result<File, FirstSecretError> {
        let folder = File::open(folder_of(&self.secret))?;
        folder.lock()?;
        Ok(folder)
    }

    /// Returns the text of the draft, if there is one. Bytes that are not text are not a secret.
    fn read_draft(&self) -> Result<Option<String>, FirstSecretError> {
        match File::open(&self.draft) {
            Ok(draft) => {
                let mut written = Vec::new();
                draft.take(1_024).read_to_end(&mut written)?; // the upper bound of a secret
                Ok(Some(String::from_utf8_lossy(&written).into_owned()))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn write_draft(&self, secret: &str) -> Result<(), FirstSecretError> {
        self.check_place()?;
        self.remove_draft()?;
        let mut draft = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&self.draft)?;
        draft.write_all(secret.as_bytes())?;
        draft.sync_all()?;
        self.sync_folder()
    }

    fn publish(&self) -> Result<(), FirstSecretError> {
        self.check_place()?;
        fs::rename(&self.draft, &self.secret)?;
        self.sync_folder()
    }

    fn remove_draft(&self) -> Result<(), FirstSecretError> {
        match fs::remove_file(&self.draft) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Refuses a file in the secret's place, unless it is blank: an interrupted start of an earlier release
    /// may have left it so.
    fn check_place(&self) -> Result<(), FirstSecretError> {
        let metadata = match fs::symlink_metadata(&self.secret) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let is_blank = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0 || byte.is_ascii_whitespace());
        if metadata.is_file() && metadata.len() <= 1_024 && is_blank(&fs::read(&self.secret)?) {
            Ok(())
        } else {
            Err(FirstSecretError::InTheWay)
        }
    }

    fn sync_folder(&self) -> Result<(), FirstSecretError> {
        Ok(File::open(folder_of(&self.secret))?.sync_all()?)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use petstore_api_key::Environment;
    use petstore_database::OpenOptions as OpenStore;
    use tempfile::TempDir;

    use super::*;

    async fn new_store(folder: &TempDir) -> (Store, DatabaseUrl) {
        let url: DatabaseUrl = format!("sqlite://{}/petstore.db", folder.path().display()).parse().unwrap();
        let options = OpenStore { migrate: true, quick_check: false };
        (Store::open(&url, &[], options).await.unwrap(), url)
    }

    async fn made(store: &Store, url: &DatabaseUrl) -> Result<Option<PathBuf>, ProcessError> {
        FirstSecret::ApiKey(ApiKey::generate(Environment::Production))
            .create(store, url, &Clock::system())
            .await
    }

    fn names(folder: &TempDir) -> Vec<String> {
        let entries = fs::read_dir(folder.path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.filter(|name| name.contains("first")).collect();
        names.sort();
        names
    }

    #[tokio::test]
    async fn a_new_store_has_one_account_whose_key_is_in_a_file_that_only_its_owner_can_read() {
        let folder = TempDir::new().unwrap();
        let (store, url) = new_store(&folder).await;
        let file = made(&store, &url).await.unwrap().unwrap();

        assert_eq!(file, folder.path().join("first-api-key"));
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
        let key = ApiKey::parse(fs::read_to_string(&file).unwrap().trim_end()).unwrap();
        assert!(store.accounts().has_key(&key).await.unwrap());
        assert_eq!(made(&store, &url).await.unwrap(), None, "the store is no longer new");
        assert_eq!(names(&folder), ["first-api-key"]);
    }

    #[tokio::test]
    async fn a_new_store_has_one_operator_whose_token_is_in_a_file_that_only_its_owner_can_read() {
        let folder = TempDir::new().unwrap();
        let (store, url) = new_store(&folder).await;
        let clock = Clock::system();
        let token = || FirstSecret::OperatorToken(OperatorToken::generate());
        let file = token().create(&store, &url, &clock).await.unwrap().unwrap();
        assert_eq!(file, folder.path().join("first-operator-token"));
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
        assert!(OperatorToken::parse(fs::read_to_string(&file).unwrap().trim_end()).is_some());
        assert_eq!(token().create(&store, &url, &clock).await.unwrap(), None, "there is an operator now");
    }

    #[tokio::test]
    async fn without_the_file_there_is_no_account() {
        let folder = TempDir::new().unwrap();
        let (store, url) = new_store(&folder).await;
        fs::create_dir(folder.path().join("first-api-key")).unwrap();

        let refusal = made(&store, &url).await.unwrap_err().to_string();
        assert!(refusal.contains("first-api-key"), "{refusal}");
        assert!(!store.accounts().has_accounts().await.unwrap());
    }

    #[tokio::test]
    async fn an_interrupted_start_is_completed_by_the_next() {
        let generated = ApiKey::generate(Environment::Production);
        let key = format!("{}\n", generated.expose());
        for (is_committed, draft, secret) in [
            (false, None, Some("")),
            (false, None, Some("\0\0\0\n")),
            (false, Some(""), None),
            (false, Some(&key[..20]), None),
            (false, Some(&*key), None),
            (true, Some(&*key), None),
            (true, Some(&*key), Some("")),
        ] {
            let folder = TempDir::new().unwrap();
            let (store, url) = new_store(&folder).await;
            for (name, content) in [("petstore.db.first-api-key", draft), ("first-api-key", secret)] {
                if let Some(content) = content {
                    fs::write(folder.path().join(name), content).unwrap();
                }
            }
            if is_committed {
                AdminStore::new(&store)
                    .create_first_account(&generated, UnixMillis(1))
                    .await
                    .unwrap()
                    .unwrap();
            }
            let file = made(&store, &url).await.unwrap().unwrap();
            let kept = ApiKey::parse(fs::read_to_string(file).unwrap().trim_end()).unwrap();
            assert_eq!(kept.expose() == generated.expose(), is_committed, "{draft:?} {secret:?}");
            assert!(store.accounts().has_key(&kept).await.unwrap());
            assert_eq!(names(&folder), ["first-api-key"], "{draft:?} {secret:?}");
        }
    }

    #[tokio::test]
    async fn secrets_of_another_store_stay_unchanged_and_open_nothing() {
        let other = TempDir::new().unwrap();
        let (store, url) = new_store(&other).await;
        let key = fs::read(made(&store, &url).await.unwrap().unwrap()).unwrap();

        let folder = TempDir::new().unwrap();
        let (store, url) = new_store(&folder).await;
        let file = folder.path().join("first-api-key");
        fs::write(&file, &key).unwrap();
        let refusal = made(&store, &url).await.unwrap_err();
        assert!(matches!(refusal, ProcessError::FirstSecret { source: FirstSecretError::InTheWay, .. }));
        assert_eq!(fs::read(&file).unwrap(), key);
        assert!(!store.accounts().has_accounts().await.unwrap());

        fs::rename(&file, folder.path().join("petstore.db.first-api-key")).unwrap();
        let new = made(&store, &url).await.unwrap().unwrap();
        assert_ne!(fs::read(new).unwrap(), key, "a draft that the store does not know is replaced");
        fs::write(folder.path().join("petstore.db.first-api-key"), &key).unwrap();
        assert_eq!(made(&store, &url).await.unwrap(), None);
        assert_eq!(names(&folder), ["first-api-key"]);
    }
}
