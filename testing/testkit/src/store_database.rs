//! PostgreSQL database for the store.

use petstore_core::store::SCHEMA;
use petstore_database::{DatabaseUrl, schema};
use petstore_test_servers::servers::{Database, database_with_schema};

/// Creates a database with the schema of the store and no rows. It is a copy, so it is given a new
/// installation name, as an operator does with a copy.
pub(crate) async fn store_database() -> Database {
    let database = database_with_schema(async |database| {
        let url: DatabaseUrl = database.url().parse().expect("a URL");
        schema::up(&url, &SCHEMA).await.expect("the schema can be made");
    })
    .await;
    database.psql("UPDATE installation SET name = left(md5(random()::text), 8)").await;
    database
}
