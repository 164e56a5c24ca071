//! New accounts, on the engine that `PETSTORE_TEST_ENGINE` names.

use petstore_database::{Database, OpenOptions, schema};
use petstore_migrations::SCHEMA;
use petstore_test_servers::Home;

use super::Accounts;

/// Creates accounts on the engine of this run.
pub(crate) async fn new_accounts() -> (Accounts, Home) {
    let home = Home::new(async |database| {
        // Boxed: the compiler bounds how deep the futures of a test may be nested.
        Box::pin(schema::up(&database.url().parse().unwrap(), &SCHEMA)).await.unwrap();
    })
    .await;
    (open(&home).await, home)
}

/// Opens the accounts once more, as another process would.
pub(crate) async fn open(home: &Home) -> Accounts {
    let options = OpenOptions { migrate: true, quick_check: true };
    Accounts::new(Database::open(&home.url().parse().unwrap(), &SCHEMA, options).await.unwrap())
}
