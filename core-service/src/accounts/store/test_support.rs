//! New accounts, on the engine that `PETSTORE_TEST_ENGINE` names.

use petstore_test_servers::Home;

use super::Accounts;
use crate::store::test_support;

/// Creates accounts on the engine of this run.
pub(crate) async fn new_accounts() -> (Accounts, Home) {
    let (store, home) = test_support::new_store().await;
    (store.accounts, home)
}

/// Opens the accounts once more, as another process would.
pub(crate) async fn open(home: &Home) -> Accounts {
    test_support::open(home).await.accounts
}
