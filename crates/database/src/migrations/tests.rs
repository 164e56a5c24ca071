use std::path::Path;

use super::*;
use crate::test_support::SCHEMA;

async fn open(path: &Path) -> DatabaseConnection {
    let mut options = ConnectOptions::new(format!("sqlite://{}?mode=rwc", path.display()));
    options.sqlx_logging(false);
    Database::connect(options).await.unwrap()
}

async fn states(db: &DatabaseConnection) -> Vec<MigrationState> {
    status(db, &SCHEMA).await.unwrap().into_iter().map(|migration| migration.state).collect()
}

/// Returns the number of changes.
fn all() -> usize {
    SCHEMA.changes.len()
}

/// Returns every table and index, as SQLite would print it.
async fn schema(db: &DatabaseConnection) -> Vec<String> {
    let query = Statement::from_string(
        DbBackend::Sqlite,
        "SELECT sql FROM sqlite_schema WHERE sql NOT NULL ORDER BY 1",
    );
    db.query_all_raw(query).await.unwrap().iter().map(|row| row.try_get_by_index(0).unwrap()).collect()
}

#[tokio::test]
async fn every_migration_can_be_applied_and_reverted_one_by_one() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(&folder.path().join("items.db")).await;
    assert_eq!(states(&db).await, vec![MigrationState::Pending; all()]);
    assert!(schema(&db).await.is_empty(), "asking for the status must write nothing");

    up(&db, &SCHEMA).await.unwrap();
    assert_eq!(states(&db).await, vec![MigrationState::Applied; all()]);
    let full = schema(&db).await;

    for _ in 0..all() {
        down(&db, &SCHEMA, 1).await.unwrap();
    }
    assert_eq!(states(&db).await, vec![MigrationState::Pending; all()]);
    up(&db, &SCHEMA).await.unwrap();
    assert_eq!(schema(&db).await, full);
}

#[tokio::test]
async fn processes_may_migrate_one_file_concurrently() {
    for round in 0..10 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("items.db");
        if round % 2 == 0 {
            let db = open(&path).await; // not quite a new file: the changes were applied and taken back
            up(&db, &SCHEMA).await.unwrap();
            down(&db, &SCHEMA, all().try_into().unwrap()).await.unwrap();
        }
        let migrating = (0..4).map(|_| {
            let path = path.clone();
            tokio::spawn(async move {
                let db = open(&path).await;
                up(&db, &SCHEMA).await.map(|()| db)
            })
        });
        for task in migrating.collect::<Vec<_>>() {
            let db = task.await.unwrap().unwrap();
            assert_eq!(states(&db).await, vec![MigrationState::Applied; all()]);
        }
    }
}

#[tokio::test]
async fn a_migration_of_a_newer_binary_is_unknown() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(&folder.path().join("items.db")).await;
    up(&db, &SCHEMA).await.unwrap();
    let newer = "INSERT INTO seaql_migrations (version, applied_at) VALUES ('m9999_from_the_future', 0)";
    db.execute_unprepared(newer).await.unwrap();
    let newest = status(&db, &SCHEMA).await.unwrap().pop().unwrap();
    assert_eq!(newest, Migration { name: "m9999_from_the_future".into(), state: MigrationState::Unknown });
    let unknown = "Migration Error: the change m9999_from_the_future belongs to another version of shop";
    assert_eq!(losses(&db, &SCHEMA, 1).await.unwrap_err().to_string(), unknown);
    assert_eq!(down(&db, &SCHEMA, 1).await.unwrap_err().to_string(), unknown);
}

#[test]
fn a_release_uses_schemas_with_additions_of_newer_ones_and_without_what_it_does_not_use() {
    for (change, suits) in [
        ("m9999_tags", true),
        ("m9999_drop_tags_unused_since_1_0_0", true),
        ("m9999_drop_tags_unused_since_0_9_12", true),
        ("m9999_drop_tags_unused_since_999_0_0", false),
        ("m9999_drop_tags_unused_since_soon", false),
    ] {
        assert_eq!(SCHEMA.suits(change), suits, "{change}");
    }
}
