//! Faults of the database that last until somebody has fixed them.

use std::{
    convert::Infallible,
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use petstore_telemetry::parts::{Fault, FaultCause, PartState};
use rustix::fs::statvfs;
use sea_orm::{DbBackend, DbErr, Statement, sqlx};
use tokio::{
    fs,
    time::{self, Instant},
};

use super::{Database, DatabaseError, PING_TIMEOUT, fault};

/// Time after the last failed write during which a small write that succeeds proves nothing: larger ones may
/// still fail.
const WRITE_FAULT_HOLD: Duration = Duration::from_secs(10);
/// Free bytes of the file system with which a store in a file takes writes again.
const ROOM_FOR_WRITES: u64 = 256 * 1024;

/// Faults that the connections of a store have found.
#[derive(Default)]
pub(super) struct Health {
    /// `true` if the database has reported that its content is damaged.
    pub(super) is_damaged: AtomicBool,
    /// Reason why the database takes no writes, and the time at which the last one failed.
    writes: Mutex<Option<(FaultCause, Instant)>>,
    /// `true` if the open file is no longer the one at the store's path.
    is_replaced: AtomicBool,
    /// Path of a SQLite store, once it is open, and its files at that time.
    file: OnceLock<(PathBuf, Files)>,
}

/// Device and inode of a file.
type FileId = (u64, u64);

/// The file at the store's path, and its write-ahead log. `None` if there is none.
type Files = [Option<FileId>; 2];

impl Health {
    /// Returns `true` if the file was replaced or removed since it was opened.
    pub(super) fn is_replaced(&self) -> bool {
        self.is_replaced.load(Ordering::Relaxed)
    }

    /// Returns the reason why the database takes no writes, if it takes none.
    pub(super) fn write_fault(&self) -> Option<FaultCause> {
        self.writes.lock().map(|(cause, _)| cause)
    }

    /// Records that a small write has succeeded. The database takes writes again if it is not only room for a
    /// small one that has been found.
    pub(super) fn record_write(&self) {
        let mut writes = self.writes.lock();
        let is_over = match *writes {
            None => false,
            Some((FaultCause::DatabaseReadOnly, _)) => true,
            Some((cause, failed_at)) => {
                failed_at.elapsed() >= WRITE_FAULT_HOLD
                    && (cause != FaultCause::DatabaseDiskFull || self.has_room())
            }
        };
        if is_over {
            *writes = None;
            tracing::info!("the database takes writes again");
        }
    }

    /// Returns `true` unless the store is in a file and its file system is full.
    fn has_room(&self) -> bool {
        let disk = self.path().and_then(|path| statvfs(path).ok());
        disk.is_none_or(|disk| disk.f_bavail.saturating_mul(disk.f_frsize) >= ROOM_FOR_WRITES)
    }

    /// Records damage, or that the database takes no writes, if the error reports it. Logs the first one.
    pub(super) fn record(&self, error: &sqlx::Error) {
        if let Some(cause) = fault::write_fault(error)
            && self.writes.lock().replace((cause, Instant::now())).is_none()
        {
            tracing::warn!(%error, "the database takes no writes; reads continue");
        }
        if !fault::is_damage(error) || self.is_damaged.swap(true, Ordering::Relaxed) {
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

    /// Records which file is open. Returns `false` if the path led to another file, `before`, when the
    /// connections were opened.
    pub(super) async fn open_file(&self, path: &Path, before: Option<FileId>) -> io::Result<bool> {
        let opened = files(path).await?;
        let is_the_same = opened[0] == before;
        let _ = self.file.set((path.to_owned(), opened)); // it is set once
        Ok(is_the_same)
    }

    /// Returns the path of the open file, on SQLite.
    pub(super) fn path(&self) -> Option<&Path> {
        self.file.get().map(|(path, _)| path.as_path())
    }

    /// Returns `true` unless the files at the store's path differ from those that were opened. A file system
    /// that does not answer proves nothing.
    pub(super) async fn is_file_in_place(&self) -> bool {
        match self.file.get() {
            Some((path, opened)) => files(path).await.map_or(true, |now| now == *opened),
            None => true,
        }
    }
}

impl Database {
    /// Checks the replicas every second, and the file of a SQLite database four times a second. Never ends.
    pub async fn watch(&self) -> Infallible {
        tokio::select! {
            never = self.watch_replicas() => never,
            never = self.watch_file() => never,
        }
    }

    /// Compares the file of a SQLite database with the one at its path, four times a second, and refuses all
    /// calls once it was replaced or removed: writes acknowledged after that would be missing at the next
    /// start. Never returns.
    async fn watch_file(&self) -> Infallible {
        if self.health.path().is_some() {
            let mut ticks = time::interval(Duration::from_millis(250));
            ticks.set_missed_tick_behavior(time::MissedTickBehavior::Delay);
            while self.health.is_file_in_place().await {
                ticks.tick().await;
            }
            self.give_up_file().await;
            self.close_connections().await;
        }
        std::future::pending().await
    }

    /// Refuses all calls from now on. Moves acknowledged writes from the write-ahead log into the open file,
    /// wherever that is now: SQLite would apply a remaining log to the file that replaced it.
    pub(super) async fn give_up_file(&self) {
        let Some(path) = self.health.path() else { return };
        self.health.is_replaced.store(true, Ordering::Relaxed);
        let path = path.display();
        tracing::error!(
            "{path} was replaced or removed while the service runs; all requests are refused. Stop the \
             service, put the right file in its place, and start it again. What was acknowledged until now \
             is in the file that was there before"
        );
        if let Err(error) = self.empty_log().await {
            tracing::error!(%error, "the old file's log was not emptied: remove {path}-wal");
        }
    }

    /// Moves the content of the write-ahead log into the open file, and leaves an empty log.
    async fn empty_log(&self) -> Result<(), DbErr> {
        let pragma = Statement::from_string(DbBackend::Sqlite, "PRAGMA wal_checkpoint(TRUNCATE)");
        let rows = self.writer.query(pragma).await?;
        match rows.first().map(|row| row.try_get_by_index::<i64>(0)).transpose()? {
            Some(0) => Ok(()),
            _ => Err(DbErr::Custom("another process reads the file".into())),
        }
    }

    /// Returns `true` if the file of a SQLite database was replaced or removed while it was open. Every call
    /// is refused then.
    pub fn is_replaced(&self) -> bool {
        self.health.is_replaced()
    }

    /// Returns the fault of the database: whether it answers a read within a second, and what its connections
    /// have found.
    pub async fn fault(&self) -> Option<Fault> {
        let is_read = matches!(time::timeout(PING_TIMEOUT, self.ping()).await, Ok(Ok(())));
        let cause = if self.health.is_replaced() {
            FaultCause::DatabaseFileReplaced
        } else if self.health.is_damaged.load(Ordering::Relaxed) {
            FaultCause::DatabaseDamaged
        } else if is_read {
            self.health.write_fault()?
        } else {
            FaultCause::DatabaseUnreachable
        };
        Some(Fault::new(if is_read { PartState::Degraded } else { PartState::Down }, cause))
    }

    /// Returns `true` if the database answers reads, and takes no writes.
    pub fn takes_no_writes(&self) -> bool {
        self.health.write_fault().is_some()
    }

    /// Notices whether the database takes writes, without a write of a client. On PostgreSQL this asks for a
    /// write that changes no row. After a failed write, on either database, it writes one row until that
    /// succeeds.
    pub async fn check_writes(&self) {
        let sql = if self.takes_no_writes() {
            "UPDATE revision SET value = value WHERE id = 1"
        } else if self.writer.backend() == DbBackend::Postgres {
            "UPDATE revision SET value = value WHERE FALSE"
        } else {
            return;
        };
        let statement = Statement::from_string(self.writer.backend(), sql);
        let written = self.within(async { Ok::<_, DatabaseError>(self.writer.query(statement).await?) });
        if written.await.is_ok() {
            self.health.record_write();
        }
    }
}

/// Returns the identities of the file at the path, and of its log.
pub(super) async fn files(path: &Path) -> io::Result<Files> {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    Ok([identity(path).await?, identity(Path::new(&log)).await?])
}

/// Returns the identity of the file at the path; `None` if there is none.
pub(super) async fn identity(path: &Path) -> io::Result<Option<FileId>> {
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
        let file = identity(&path).await.unwrap();
        assert!(health.open_file(&path, file).await.unwrap());
        assert!(!Health::default().open_file(&path, identity(&other).await.unwrap()).await.unwrap());
        assert_eq!(health.path(), Some(path.as_path()));
        assert!(health.is_file_in_place().await);
        fs::write(&log, "").await.unwrap();
        assert!(!health.is_file_in_place().await);
        fs::remove_file(&log).await.unwrap();
        assert!(health.is_file_in_place().await);
        fs::rename(&other, &path).await.unwrap();
        assert!(!health.is_file_in_place().await);
    }

    #[tokio::test]
    async fn writes_are_taken_again_once_they_succeed_and_none_has_failed_for_a_while() {
        let health = Health::default();
        for (cause, secs_since_failure, is_over) in [
            (FaultCause::DatabaseDiskFull, 9, false),
            (FaultCause::DatabaseDiskFull, 10, true),
            (FaultCause::DatabaseWritesFail, 9, false),
            (FaultCause::DatabaseWritesFail, 10, true),
            (FaultCause::DatabaseReadOnly, 0, true),
        ] {
            let failed_at = Instant::now().checked_sub(Duration::from_secs(secs_since_failure)).unwrap();
            *health.writes.lock() = Some((cause, failed_at));
            assert_eq!(health.write_fault(), Some(cause));
            health.record_write();
            assert_eq!(health.write_fault().is_none(), is_over, "{cause:?}, {secs_since_failure} s");
        }
    }

    #[tokio::test]
    async fn only_reported_damage_is_recorded() {
        let health = Health::default();
        health.record(&sqlx::Error::PoolClosed);
        assert!(!health.is_damaged.load(Ordering::Relaxed));
        health.record(&fault::tests::error_of_sqlite(Some(&"a text ".repeat(1_000))).await);
        assert!(health.is_damaged.load(Ordering::Relaxed));
    }
}
