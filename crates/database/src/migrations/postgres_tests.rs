use petstore_test_servers::servers::{Database as TestDatabase, PostgresServer};

use super::*;
use crate::{
    DatabaseError, schema,
    test_support::{self, SCHEMA, row},
};

async fn new_database() -> TestDatabase {
    PostgresServer::shared().await.database().await
}

async fn connect(database: &TestDatabase) -> DatabaseConnection {
    let mut options = ConnectOptions::new(database.url());
    options.max_connections(1).sqlx_logging(false);
    Database::connect(options).await.unwrap()
}

async fn states(db: &DatabaseConnection) -> Vec<MigrationState> {
    status(db, &SCHEMA).await.unwrap().into_iter().map(|migration| migration.state).collect()
}

/// Returns every column and index.
async fn schema_of(database: &TestDatabase) -> String {
    let columns = "SELECT table_name, column_name, data_type, is_nullable, is_identity \
                   FROM information_schema.columns WHERE table_schema = 'public' \
                   ORDER BY 1, ordinal_position";
    let indexes = "SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1";
    let constraints = "SELECT conrelid::regclass, pg_get_constraintdef(oid) FROM pg_constraint \
                       WHERE connamespace = 'public'::regnamespace ORDER BY 1, 2";
    [database.psql(columns).await, database.psql(indexes).await, database.psql(constraints).await].join("\n")
}

#[tokio::test]
async fn every_migration_can_be_applied_and_reverted_one_by_one_on_postgresql() {
    let database = new_database().await;
    let db = connect(&database).await;
    let all = states(&db).await;
    assert!(all.iter().all(|state| *state == MigrationState::Pending), "{all:?}");
    assert_eq!(schema_of(&database).await.trim(), "", "asking for the status must write nothing");

    up(&db, &SCHEMA).await.unwrap();
    assert!(states(&db).await.iter().all(|state| *state == MigrationState::Applied));
    let full = schema_of(&database).await;
    for _ in 0..all.len() {
        down(&db, &SCHEMA, 1).await.unwrap();
    }
    assert_eq!(states(&db).await, all);
    up(&db, &SCHEMA).await.unwrap();
    assert_eq!(schema_of(&database).await, full);
}

#[tokio::test]
async fn processes_may_migrate_one_database_concurrently() {
    let database = new_database().await;
    let migrating = (0..4).map(|_| {
        let database = database.clone();
        tokio::spawn(async move {
            let db = connect(&database).await;
            up(&db, &SCHEMA).await.map(|()| db)
        })
    });
    for task in migrating.collect::<Vec<_>>() {
        let db = task.await.unwrap().unwrap();
        assert!(states(&db).await.iter().all(|state| *state == MigrationState::Applied));
    }
}

#[tokio::test]
async fn a_migration_that_fails_leaves_nothing_behind() {
    let database = new_database().await;
    let db = connect(&database).await;
    database.psql("CREATE TABLE revision (in_the_way int)").await; // the table that a later change creates
    up(&db, &SCHEMA).await.unwrap_err();
    let tables = "SELECT string_agg(tablename, ',') FROM pg_tables WHERE schemaname = 'public'";
    assert_eq!(database.psql(tables).await, "revision");
    database.psql("DROP TABLE revision").await;
    up(&db, &SCHEMA).await.unwrap();
}

#[tokio::test]
async fn sequences_behind_copied_rows_are_named_by_the_failure_and_set_right() {
    let (items, database) = test_support::new_on_postgres().await;
    database.psql("INSERT INTO items (id, name) VALUES (1, 'a'), (2, 'a'), (7, 'a')").await;
    for failure in
        [items.add("a").await.map(drop), items.database.insert_rows(vec![row("a")]).await.map(drop)]
    {
        let Err(DatabaseError::NumberTaken(cause)) = &failure else { panic!("{failure:?}") };
        assert!(cause.to_string().contains("\"items_pkey\""), "{cause}");
    }
    schema::up(&database.url().parse().unwrap(), &SCHEMA).await.unwrap();
    assert_eq!(items.add("a").await.unwrap(), 8);
    schema::up(&database.url().parse().unwrap(), &SCHEMA).await.unwrap();
    assert_eq!(items.add("a").await.unwrap(), 9, "a sequence that is right stays as it is");
}
