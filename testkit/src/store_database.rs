//! A PostgreSQL database for the store.

use petstore_core::{DatabaseUrl, store::schema};
use petstore_test_servers::servers::{Database, database_with_schema};

/// A new database with the schema of the store and nothing in it.
pub(crate) async fn store_database() -> Database {
    database_with_schema(async |database| {
        let url: DatabaseUrl = database.url().parse().expect("a URL");
        schema::up(&url).await.expect("the schema can be made");
    })
    .await
}
