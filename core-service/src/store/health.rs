//! Faults of the database that last until an operator has fixed them.

use std::{
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use sea_orm::sqlx;
use tokio::fs;

use super::fault;

/// Faults that the connections of a store have found. Clones share them.
#[derive(Clone, Default)]
pub(super) struct Health(Arc<Faults>);

#[derive(Default)]
struct Faults {
    /// `true` if the database has reported that its content is damaged.
    is_damaged: AtomicBool,
    /// `true` if the open file is no longer the one at the store's path.
    is_replaced: AtomicBool,
    /// Path of a SQLite store, once it is open, and its files at that time.
    file: OnceLock<(PathBuf, Files)>,
}

/// Device and inode of the file at the store's path, and of its write-ahead log. `None` if there is none.
type Files = [Option<(u64, u64)>; 2];

impl Health {
    /// Returns `true` if the database has reported damage since the process started.
    pub(super) fn is_damaged(&self) -> bool {
        self.0.is_damaged.load(Ordering::Relaxed)
    }

    /// Returns `true` if the file was replaced or removed since it was opened.
    pub(super) fn is_replaced(&self) -> bool {
        self.0.is_replaced.load(Ordering::Relaxed)
    }

    /// Records damage if the error reports it. Logs the first damage that is found.
    pub(super) fn record(&self, error: &sqlx::Error) {
        if !fault::is_damage(error) || self.0.is_damaged.swap(true, Ordering::Relaxed) {
            return;
        }
        if let Some(path) = self.path() {
            let path = path.display();
            tracing::error!(
                %error,
                "{path} is damaged: stop the service and restore a backup, or save what can be read with \
                 `sqlite3 {path} .recover`"
            );
        } else {
            tracing::error!(
                %error,
                "PostgreSQL says that the database is damaged: look into its log, check it with pg_amcheck, \
                 repair it or fail over to a sound copy, and restart this process"
            );
        }
    }

    /// Records which file is open.
    pub(super) async fn open_file(&self, path: &Path) -> io::Result<()> {
        let opened = files(path).await?;
        let _ = self.0.file.set((path.to_owned(), opened)); // it is set once
        Ok(())
    }

    /// Returns the path of the open file, on SQLite.
    pub(super) fn path(&self) -> Option<&Path> {
        self.0.file.get().map(|(path, _)| path.as_path())
    }

    /// Returns `true` unless the files at the store's path differ from those that were opened. A file system
    /// that does not answer proves nothing.
    pub(super) async fn is_file_in_place(&self) -> bool {
        match self.0.file.get() {
            Some((path, opened)) => files(path).await.map_or(true, |now| now == *opened),
            None => true,
        }
    }

    /// Records that the file was replaced. It is not used from then on.
    pub(super) fn give_up_file(&self) {
        self.0.is_replaced.store(true, Ordering::Relaxed);
    }
}

async fn files(path: &Path) -> io::Result<Files> {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    Ok([identity(path).await?, identity(Path::new(&log)).await?])
}

async fn identity(path: &Path) -> io::Result<Option<(u64, u64)>> {
    match fs::metadata(path).await {
        Ok(metadata) => Ok(Some((metadata.dev(), metadata.ino()))),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_file_is_in_place_until_it_or_its_log_is_another() {
        let folder = tempfile::tempdir().unwrap();
        let [path, log, other] =
            ["petstore.db", "petstore.db-wal", "other"].map(|name| folder.path().join(name));
        let health = Health::default();
        assert!(health.path().is_none() && health.is_file_in_place().await);
        for file in [&path, &other] {
            fs::write(file, "").await.unwrap();
        }
        health.open_file(&path).await.unwrap();
        assert_eq!(health.path(), Some(path.as_path()));
        assert!(health.is_file_in_place().await);
        fs::write(&log, "").await.unwrap();
        assert!(!health.is_file_in_place().await);
        fs::remove_file(&log).await.unwrap();
        assert!(health.is_file_in_place().await);
        fs::rename(&other, &path).await.unwrap();
        assert!(!health.is_file_in_place().await);
        assert!(!health.is_replaced());
        health.give_up_file();
        assert!(health.is_replaced());
    }

    #[tokio::test]
    async fn only_reported_damage_is_recorded() {
        let health = Health::default();
        health.record(&sqlx::Error::PoolClosed);
        assert!(!health.is_damaged());
        health.record(&fault::tests::error_of_sqlite(Some(&"a text ".repeat(1_000))).await);
        assert!(health.clone().is_damaged());
    }
}
