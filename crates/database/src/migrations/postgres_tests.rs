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
