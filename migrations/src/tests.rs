use std::path::Path;

use sea_orm_migration::{
    sea_orm::{ConnectOptions, Database},
    sea_query::{PostgresQueryBuilder, SqliteQueryBuilder},
};

use super::*;

/// SHA-256 of `rest/1/1`.
pub(crate) const DIGEST_OF_REST_1_1: &str =
    "9c9448a16002565fc2d647f9526a79e09d750020a521cef8eaa090ca85af029d";

async fn open(path: &Path) -> DatabaseConnection {
    let mut options = ConnectOptions::new(format!("sqlite://{}?mode=rwc", path.display()));
    options.sqlx_logging(false);
    Database::connect(options).await.unwrap()
}

async fn states(db: &DatabaseConnection) -> Vec<MigrationState> {
    status(db).await.unwrap().into_iter().map(|migration| migration.state).collect()
}

/// How many changes there are.
fn all() -> usize {
    Migrator::migrations().len()
}

/// Every table and index, as SQLite would print it.
async fn schema(db: &DatabaseConnection) -> Vec<String> {
    let query = Statement::from_string(
        DbBackend::Sqlite,
        "SELECT sql FROM sqlite_schema WHERE sql NOT NULL ORDER BY 1",
    );
    db.query_all_raw(query).await.unwrap().iter().map(|row| row.try_get_by_index(0).unwrap()).collect()
}

#[tokio::test]
async fn every_change_can_be_applied_and_taken_back_one_by_one() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(&folder.path().join("pets.db")).await;
    assert_eq!(states(&db).await, vec![MigrationState::Pending; all()]);
    assert!(schema(&db).await.is_empty(), "asking for the status must write nothing");

    up(&db).await.unwrap();
    assert_eq!(states(&db).await, vec![MigrationState::Applied; all()]);
    let full = schema(&db).await;

    for _ in 0..all() {
        down(&db, 1).await.unwrap();
    }
    assert_eq!(states(&db).await, vec![MigrationState::Pending; all()]);
    up(&db).await.unwrap();
    assert_eq!(schema(&db).await, full);
}

/// Takes back the change that keeps digests, and all later ones.
pub(crate) async fn take_back_digests(db: &DatabaseConnection) {
    let is_it = |migration: &Migration| migration.name.starts_with("m0010");
    let known = status(db).await.unwrap();
    let steps = known.len() - known.iter().position(is_it).unwrap();
    down(db, steps.try_into().unwrap()).await.unwrap();
}

#[tokio::test]
async fn names_of_creations_become_digests_and_stay_known() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(&folder.path().join("pets.db")).await;
    up(&db).await.unwrap();
    take_back_digests(&db).await;
    let names = "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 2500) \
                 INSERT INTO create_requests SELECT 'rest/1/' || n, n, n + 7 FROM numbers";
    db.execute_unprepared(names).await.unwrap();
    up(&db).await.unwrap();
    let all = Statement::from_string(
        DbBackend::Sqlite,
        "SELECT hex(digest), pet_id, created_at FROM create_requests ORDER BY pet_id",
    );
    let rows = db.query_all_raw(all).await.unwrap();
    assert_eq!(rows.len(), 2_500);
    let first = (
        rows[0].try_get_by_index::<String>(0).unwrap(),
        rows[0].try_get_by_index::<i64>(1).unwrap(),
        rows[0].try_get_by_index::<i64>(2).unwrap(),
    );
    assert_eq!(first, (DIGEST_OF_REST_1_1.to_uppercase(), 1, 8));

    take_back_digests(&db).await;
    let left = Statement::from_string(
        DbBackend::Sqlite,
        "SELECT count(*) FROM create_requests WHERE request_id = ''",
    );
    let left: i64 = db.query_one_raw(left).await.unwrap().unwrap().try_get_by_index(0).unwrap();
    assert_eq!(left, 0, "no name can be had back");
    up(&db).await.unwrap();
}

#[tokio::test]
async fn any_number_may_migrate_one_file_at_once() {
    for round in 0..10 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pets.db");
        if round % 2 == 0 {
            let db = open(&path).await; // not quite a new file: the changes were applied and taken back
            up(&db).await.unwrap();
            down(&db, all().try_into().unwrap()).await.unwrap();
        }
        let migrating = (0..4).map(|_| {
            let path = path.clone();
            tokio::spawn(async move {
                let db = open(&path).await;
                up(&db).await.map(|()| db)
            })
        });
        for task in migrating.collect::<Vec<_>>() {
            let db = task.await.unwrap().unwrap();
            assert_eq!(states(&db).await, vec![MigrationState::Applied; all()]);
        }
    }
}

#[tokio::test]
async fn a_change_of_a_newer_binary_is_unknown() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(&folder.path().join("pets.db")).await;
    up(&db).await.unwrap();
    let newer = "INSERT INTO seaql_migrations (version, applied_at) VALUES ('m9999_from_the_future', 0)";
    db.execute_unprepared(newer).await.unwrap();
    let newest = status(&db).await.unwrap().pop().unwrap();
    assert_eq!(newest, Migration { name: "m9999_from_the_future".into(), state: MigrationState::Unknown });
}

#[test]
fn identifiers_are_never_assigned_twice() {
    for table in [
        m0001_pets::pets(),
        m0002_accounts::accounts(),
        m0005_orders::orders(),
        m0013_operators::operators(),
        m0014_audit_events::audit_events(),
    ] {
        assert!(table.to_string(SqliteQueryBuilder).contains("AUTOINCREMENT"));
        assert!(table.to_string(PostgresQueryBuilder).contains("bigint GENERATED BY DEFAULT AS IDENTITY"));
    }
}

#[test]
fn every_int64_fits_its_column_on_postgresql_too() {
    let tables = [
        m0001_pets::pets(),
        m0002_accounts::accounts(),
        m0003_api_keys::api_keys(),
        m0004_revision::revision(),
        m0005_orders::orders(),
        m0006_bans::bans(),
        m0007_usage::usage_days(),
        m0007_usage::usage_reporters(),
        m0008_create_requests::create_requests(),
        m0009_imports::imports(),
        m0010_create_request_digests::digests(),
        m0011_installation::installation(),
        m0013_operators::operators(),
        m0014_audit_events::audit_events(),
        m0016_usage_minutes_and_refusals::usage_minutes(),
        m0016_usage_minutes_and_refusals::refusals(),
        m0016_usage_minutes_and_refusals::refusal_counts(),
    ];
    for table in tables {
        let sql = table.to_string(PostgresQueryBuilder);
        assert!(!sql.contains(" integer"), "{sql}");
    }
}
