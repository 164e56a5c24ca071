use std::fs;

use sea_orm::{
    ConnectionTrait, DbBackend, QueryResult, RuntimeErr, SqliteTransactionMode, Statement,
    TransactionOptions, sqlx,
};

use super::*;
use crate::{
    MigrationState,
    connection::Connections,
    schema,
    test_support::{Items, MIGRATE, SCHEMA, new_file, open, url},
};

const AS_IT_IS: OpenOptions = OpenOptions { migrate: false, quick_check: true };

async fn refusal(path: &Path, options: OpenOptions) -> OpenError {
    Database::open(&url(path), &SCHEMA, options).await.map(drop).unwrap_err()
}

/// Tests the option of `.cargo/config.toml`, which a build that ignores this file would lack.
#[tokio::test]
async fn a_plan_does_not_depend_on_values() {
    let (items, _folder) = new_file().await;
    let options = Statement::from_string(DbBackend::Sqlite, "PRAGMA compile_options");
    let options = items.database.reader.query_all_raw(options).await.unwrap();
    let is_set = |row: &QueryResult| row.try_get_by_index::<String>(0).unwrap() == "ENABLE_QPSG";
    assert!(options.iter().any(is_set));
}

#[tokio::test]
async fn folder_and_file_are_created_and_content_survives() {
    let folder = tempfile::tempdir().unwrap();
    let url = url(&folder.path().join("a/b%20c/new.db"));
    let items = open(&url).await;
    let id = items.add("a").await.unwrap();
    items.database.close().await;
    let items = Items::new(Database::open(&url, &SCHEMA, AS_IT_IS).await.unwrap());
    assert_eq!(items.find(id).await.unwrap().as_deref(), Some("a"));
    items.database.ping().await.unwrap();
}

#[tokio::test]
async fn only_the_owner_may_read_the_files_whatever_the_umask() {
    use std::os::unix::fs::PermissionsExt;
    let (items, folder) = new_file().await;
    items.add("a").await.unwrap();
    let mut modes: Vec<_> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|file| {
            (file.file_name().into_string().unwrap(), file.metadata().unwrap().permissions().mode() & 0o777)
        })
        .collect();
    modes.sort_unstable();
    let expected = ["items.db", "items.db-shm", "items.db-wal"].map(|name| (name.to_owned(), 0o600));
    assert_eq!(modes, expected);
}

#[tokio::test]
async fn the_connections_are_set_up_for_durability() {
    let (items, _folder) = new_file().await;
    let pragma = async |connection: &Connections, name: &str| {
        let statement = Statement::from_string(DbBackend::Sqlite, format!("PRAGMA {name}"));
        let row = connection.query_one_raw(statement).await.unwrap().unwrap();
        row.try_get_by_index::<String>(0)
            .or_else(|_| row.try_get_by_index::<i64>(0).map(|number| number.to_string()))
            .unwrap()
    };
    assert_eq!(pragma(&items.database.writer, "journal_mode").await, "wal");
    assert_eq!(pragma(&items.database.writer, "synchronous").await, "2", "FULL");
    assert_eq!(pragma(&items.database.writer, "foreign_keys").await, "1");
    assert_eq!(pragma(&items.database.reader, "busy_timeout").await, "2000");
    assert!(
        items.database.reader.execute_unprepared("DELETE FROM items").await.is_err(),
        "readers only read"
    );
}

#[tokio::test]
async fn opening_waits_for_a_process_that_is_opening_the_same_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new.db");
    let other = sea_orm::Database::connect(format!("sqlite://{}?mode=rwc", path.display())).await.unwrap();
    other.execute_unprepared("CREATE TABLE held (id integer)").await.unwrap(); // WAL mode is not yet on
    let lock = other.begin_with_options(migrations::immediate()).await.unwrap();

    let url = url(&path);
    let mut opening = Box::pin(Database::open(&url, &SCHEMA, MIGRATE));
    assert!(
        time::timeout(Duration::from_millis(300), &mut opening).await.is_err(),
        "it neither opens nor gives up"
    );
    lock.rollback().await.unwrap();
    opening.await.unwrap().ping().await.unwrap();
}

#[tokio::test]
async fn opening_waits_for_a_slow_connection() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new.db");
    let other = sea_orm::Database::connect(format!("sqlite://{}?mode=rwc", path.display())).await.unwrap();
    // The first page cannot be read: SQLite waits in the middle of connecting, as it does for a slow disk.
    let exclusive = TransactionOptions {
        sqlite_transaction_mode: Some(SqliteTransactionMode::Exclusive),
        ..TransactionOptions::default()
    };
    let lock = other.begin_with_options(exclusive).await.unwrap();

    let url = url(&path);
    let mut opening = Box::pin(Database::open(&url, &SCHEMA, MIGRATE));
    let early = time::timeout(Duration::from_millis(1_200), &mut opening).await;
    assert!(early.is_err(), "it neither opens nor gives up: {early:?}");
    lock.rollback().await.unwrap();
    opening.await.unwrap().ping().await.unwrap();
}

#[test]
fn the_timeout_of_a_connection_does_not_mention_the_pool() {
    let error = DbErr::Conn(RuntimeErr::SqlxError(sqlx::Error::PoolTimedOut.into()));
    let error = explain(Path::new("new.db"), error);
    let cause = std::error::Error::source(&error).unwrap();
    assert_eq!(
        format!("{error}: {cause}"),
        "cannot open new.db: it takes too long: the disk is busy, or another process has locked the file"
    );
}

#[tokio::test]
async fn a_log_without_its_file_is_refused_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let (path, log) = (folder.path().join("items.db"), folder.path().join("items.db-wal"));
    fs::write(&log, "acknowledged").unwrap();
    for options in [AS_IT_IS, MIGRATE] {
        assert!(matches!(refusal(&path, options).await, OpenError::LogAlone(..)));
        assert!(!path.exists());
    }
    fs::write(&path, "").unwrap();
    for options in [AS_IT_IS, MIGRATE] {
        assert!(matches!(refusal(&path, options).await, OpenError::LogAlone(..)));
        assert_eq!((fs::read(&path).unwrap().len(), fs::read(&log).unwrap()), (0, b"acknowledged".into()));
    }
}

#[tokio::test]
async fn a_missing_store_is_not_created_unasked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new.db");
    assert!(matches!(refusal(&path, AS_IT_IS).await, OpenError::Missing(..)));
    assert!(matches!(schema::status(&url(&path), &SCHEMA).await, Err(OpenError::Missing(..))));
    assert!(!path.exists());
}

#[tokio::test]
async fn a_path_that_cannot_be_a_file_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("file"), "x").unwrap();

    let error = refusal(folder, MIGRATE).await;
    assert_eq!(error.to_string(), format!("cannot open {0}: it is not a regular file", folder.display()));

    for path in ["file/new.db", "file/deeper/new.db"] {
        let path = folder.join(path);
        let error = refusal(&path, MIGRATE).await;
        let file = folder.join("file");
        assert_eq!(
            error.to_string(),
            format!("cannot open {}: {} is not a folder", path.display(), file.display())
        );
    }

    let error = refusal(Path::new("/proc/petstore/new.db"), MIGRATE).await;
    assert_eq!(error.to_string(), "cannot create the folder /proc/petstore");
}

#[tokio::test]
async fn the_schema_of_another_version_is_refused_unless_it_only_adds() {
    let (items, folder) = new_file().await;
    let path = folder.path().join("items.db");
    let newer = "INSERT INTO seaql_migrations (version, applied_at) VALUES ('m9998_unused_since_99_0_0', 0), \
                 ('m9999_later', 0)";
    items.database.writer.execute_unprepared(newer).await.unwrap();
    let error = refusal(&path, MIGRATE).await;
    assert!(
        matches!(&error, OpenError::SchemaNewer(_, migration) if migration == "m9998_unused_since_99_0_0"),
        "{error}"
    );

    let suited = "DELETE FROM seaql_migrations WHERE version = 'm9998_unused_since_99_0_0'";
    items.database.writer.execute_unprepared(suited).await.unwrap();
    for options in [MIGRATE, AS_IT_IS] {
        Database::open(&url(&path), &SCHEMA, options).await.unwrap().close().await;
    }
    let earlier = "UPDATE seaql_migrations SET version = 'm0001_old' WHERE version = 'm9999_later'";
    items.database.writer.execute_unprepared(earlier).await.unwrap();
    let error = refusal(&path, MIGRATE).await.to_string();
    assert!(error.ends_with("items.db was made by an old build: make a new one"), "{error}");
    let known = "DELETE FROM seaql_migrations WHERE version = 'm0001_old'";
    items.database.writer.execute_unprepared(known).await.unwrap();
    items.database.close().await;
    schema::down(&url(&path), &SCHEMA, 1).await.unwrap();
    let error = refusal(&path, AS_IT_IS).await;
    assert!(matches!(error, OpenError::SchemaOlder(..)), "{error}");
    let all_applied = schema::up(&url(&path), &SCHEMA).await.unwrap();
    assert!(all_applied.iter().all(|migration| migration.state == MigrationState::Applied));
    Database::open(&url(&path), &SCHEMA, AS_IT_IS).await.unwrap();
}

#[tokio::test]
async fn a_damaged_file_or_one_of_another_kind_is_refused_and_left_unchanged() {
    let (items, folder) = new_file().await;
    for _ in 0..300 {
        items.add(&"x".repeat(200)).await.unwrap();
    }
    items.database.close().await;
    let path = folder.path().join("items.db");
    let whole = fs::read(&path).unwrap();
    let page = whole.len() / 2 / 4096 * 4096;
    let mut damaged = whole.clone();
    damaged[page..page + 4096].fill(0x5a);
    let letter = "not a database, but somebody's letter. ".repeat(500).into_bytes();
    let truncated = [whole.len() / 2, 4_096, 100].map(|length| (whole[..length].to_vec(), MIGRATE));
    for (content, options) in [(damaged, AS_IT_IS), (letter, MIGRATE)].into_iter().chain(truncated) {
        fs::write(&path, &content).unwrap();
        let error = refusal(&path, options).await;
        assert!(matches!(error, OpenError::Corrupt(..)), "{} bytes: {error:?}", content.len());
        assert_eq!(fs::read(&path).unwrap(), content, "the evidence is left as it is");
    }
}
