//! The first API key and the first operator token of a new store, so that the service can be tried at once.
//!
//! A secret is written to a draft beside the store, then the account with its key (or the operator) is
//! committed, then the draft is renamed. So a crash leaves neither an account without a key nor a key without
//! an account: the next start renames the draft if it was committed, and otherwise replaces or
//! removes it.

use std::{
    error::Error,
    fs::File,
    io,
    path::{Path, PathBuf},
};

use petstore_admin_service::{AdminError, store::AdminStore};
use petstore_caller::api_key::{ApiKey, OperatorToken};
use petstore_clock::{Clock, UnixMillis};
use petstore_command_line::output_file::{OutputFile, OutputKind, beside, folder_of};
use petstore_core::store::Store;
use petstore_database::DatabaseUrl;
use tokio::{fs, task::spawn_blocking};

use super::ProcessError;

/// Reason why there is no first key or token: of the file, of its draft, or of the store.
pub(super) type FirstSecretError = Box<dyn Error + Send + Sync>;

/// Secret that a new store begins with.
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
        let (name, secret) = match &self {
            Self::ApiKey(_) => ("first-api-key", "API key"),
            Self::OperatorToken(_) => ("first-operator-token", "operator token"),
        };
        // The draft's name begins with the store's, so it belongs to no other store in the folder.
        let (file, draft) = (path.with_file_name(name), beside(path, &format!(".{name}")));
        match self.create_file(store, &file, draft, clock.now()).await {
            Ok(is_created) => Ok(is_created.then_some(file)),
            Err(source) => Err(ProcessError::FirstSecret { secret, file, source }),
        }
    }

    /// Returns `true` if the secret, or one that an interrupted start has left, is in the file now.
    async fn create_file(
        &self,
        store: &Store,
        file: &Path,
        draft: PathBuf,
        now: UnixMillis,
    ) -> Result<bool, FirstSecretError> {
        if !self.is_missing(store).await? && !fs::try_exists(&draft).await? {
            return Ok(false);
        }
        // If several processes start at once, the first creates the secret and the others find it.
        let folder = folder_of(file).to_owned();
        let lock = move || File::open(folder).and_then(|folder| folder.lock().map(|()| folder));
        let folder = spawn_blocking(lock).await.map_err(io::Error::other)??;
        let is_missing = self.is_missing(store).await?;
        if !is_missing && !fs::try_exists(&draft).await? {
            return Ok(false);
        }
        if fs::symlink_metadata(file).await.is_ok() {
            return Err("a file of that name exists and may belong to another store; move it away".into());
        }
        if !is_missing && !self.is_known(store, &fs::read_to_string(&draft).await?).await? {
            fs::remove_file(&draft).await?; // an account or an operator was made in another way since
            return Ok(false);
        }
        if is_missing {
            let (written, new) = (format!("{}\n", self.expose()), draft.clone());
            let write = move || OutputFile::create(&new, OutputKind::Store, true)?.fill(written.as_bytes());
            spawn_blocking(write).await.map_err(io::Error::other)??;
            if !self.add(store, now).await? {
                fs::remove_file(&draft).await?;
                return Ok(false);
            }
        }
        fs::rename(&draft, file).await?;
        spawn_blocking(move || folder.sync_all()).await.map_err(io::Error::other)??;
        Ok(true)
    }

    fn expose(&self) -> &str {
        match self {
            Self::ApiKey(key) => key.expose(),
            Self::OperatorToken(token) => token.expose(),
        }
    }

    /// Returns `true` if the store has no secret of this kind yet.
    async fn is_missing(&self, store: &Store) -> Result<bool, AdminError> {
        match self {
            Self::ApiKey(_) => Ok(!store.accounts.has_accounts().await?),
            Self::OperatorToken(_) => Ok(!AdminStore::new(store).has_operators().await?),
        }
    }

    /// Returns `true` if the store has the secret of this draft.
    async fn is_known(&self, store: &Store, draft: &str) -> Result<bool, AdminError> {
        let draft = draft.trim_end();
        Ok(match (self, ApiKey::parse(draft), OperatorToken::parse(draft)) {
            (Self::ApiKey(_), Some(key), _) => !store.accounts.find_keys(&[key.digest()]).await?.is_empty(),
            (Self::OperatorToken(_), _, Some(token)) => AdminStore::new(store).has_token(&token).await?,
            _ => false,
        })
    }

    /// Adds the secret to the store. Returns `false` if another process was faster.
    async fn add(&self, store: &Store, now: UnixMillis) -> Result<bool, AdminError> {
        let store = AdminStore::new(store);
        match self {
            Self::ApiKey(key) => Ok(Box::pin(store.create_first_account(key, now)).await?.is_some()),
            Self::OperatorToken(token) => {
                Ok(Box::pin(store.create_first_operator(token, now)).await?.is_some())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::MetadataExt};

    use petstore_caller::api_key::Environment;
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

    async fn has_key(store: &Store, key: &ApiKey) -> bool {
        !store.accounts.find_keys(&[key.digest()]).await.unwrap().is_empty()
    }

    fn names(folder: &TempDir) -> Vec<String> {
        let entries = fs::read_dir(folder.path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.filter(|name| name.contains("first")).collect();
        names.sort();
        names
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
        assert!(!store.accounts.has_accounts().await.unwrap());
    }

    #[tokio::test]
    async fn an_interrupted_start_is_completed_by_the_next() {
        let generated = ApiKey::generate(Environment::Production);
        let key = format!("{}\n", generated.expose());
        for (is_committed, draft) in [(false, ""), (false, &key[..20]), (false, &key), (true, &key)] {
            let folder = TempDir::new().unwrap();
            let (store, url) = new_store(&folder).await;
            fs::write(folder.path().join("petstore.db.first-api-key"), draft).unwrap();
            if is_committed {
                AdminStore::new(&store)
                    .create_first_account(&generated, UnixMillis(1))
                    .await
                    .unwrap()
                    .unwrap();
            }
            let file = made(&store, &url).await.unwrap().unwrap();
            let kept = ApiKey::parse(fs::read_to_string(file).unwrap().trim_end()).unwrap();
            assert_eq!(kept.expose() == generated.expose(), is_committed, "{draft:?}");
            assert!(has_key(&store, &kept).await);
            assert_eq!(names(&folder), ["first-api-key"], "{draft:?}");
        }
    }

    #[tokio::test]
    async fn a_draft_that_was_not_committed_is_removed_if_there_is_an_account_now() {
        let folder = TempDir::new().unwrap();
        let (store, url) = new_store(&folder).await;
        let other = ApiKey::generate(Environment::Production);
        AdminStore::new(&store).create_first_account(&other, UnixMillis(1)).await.unwrap().unwrap();
        let draft = ApiKey::generate(Environment::Production).expose().to_owned();
        fs::write(folder.path().join("petstore.db.first-api-key"), draft).unwrap();
        assert_eq!(made(&store, &url).await.unwrap(), None);
        assert_eq!(names(&folder), Vec::<String>::new());
    }

    #[tokio::test]
    async fn processes_that_start_at_once_create_one_secret() {
        let folder = TempDir::new().unwrap();
        let (store, url) = new_store(&folder).await;
        let starts = futures_util::future::join_all((0..8).map(|_| made(&store, &url))).await;
        let files = starts.into_iter().filter_map(Result::unwrap);
        assert_eq!(files.collect::<Vec<_>>(), [folder.path().join("first-api-key")]);
        let written = fs::read_to_string(folder.path().join("first-api-key")).unwrap();
        assert!(has_key(&store, &ApiKey::parse(written.trim_end()).unwrap()).await);
        assert_eq!(names(&folder), ["first-api-key"]);
    }
}
