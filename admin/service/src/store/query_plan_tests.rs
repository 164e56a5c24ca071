//! Query plans of an operator's calls.

use std::sync::{Arc, Mutex};

use petstore_clock::UnixMillis;
use petstore_core::{pages::PageSize, store::Store};
use petstore_database::{OpenOptions, testing::Observe};
use petstore_test_servers::servers::database_with_schema;
use sea_orm::{ConnectionTrait, Statement};

use super::AdminStore;
use crate::{
    domain::{Actor, OperatorName, Role},
    grpc::tests::make_schema,
};

const NOW: UnixMillis = UnixMillis(1_800_000_000_000);

/// Makes the calls of an operator's first sign-in, and of the page of operators after it.
async fn administer(store: &AdminStore) {
    let name = OperatorName::parse("first").unwrap();
    let (_, token) = store.create_operator(&Actor::LOCAL, &name, Role::Admin, None, NOW).await.unwrap();
    store.authenticate_operator(&token, NOW).await.unwrap().unwrap();
    let actor = Actor { operator: name, ..Actor::LOCAL };
    let session = store.open_session(&actor, &token, NOW).await.unwrap();
    store.authenticate_operator(&session, NOW).await.unwrap().unwrap();
    store.list_operators(PageSize::MAX, None).await.unwrap();
    store.has_operators().await.unwrap();
    store.end_session(&actor, session.digest(), NOW).await.unwrap();
}

/// Tests that no statement is compiled. Compilation takes longer than any of the statements, even more so on
/// a busy machine.
#[tokio::test]
async fn no_statement_of_an_operator_is_compiled_before_postgresql_executes_it() {
    let postgres = database_with_schema(make_schema).await;
    let options = OpenOptions { migrate: true, quick_check: true };
    let store = Store::open(&postgres.url().parse().unwrap(), &[], options).await.unwrap();
    let mut database = store.database().clone();
    let sent = Arc::<Mutex<Vec<Statement>>>::default();
    let record = Arc::clone(&sent);
    let observe: Observe = Arc::new(move |info| record.lock().unwrap().push(info.statement.clone()));
    database.observe(&observe);
    administer(&AdminStore { database }).await;

    let statements = std::mem::take(&mut *sent.lock().unwrap());
    let of_sessions = |statement: &&Statement| statement.sql.contains("operator_sessions");
    assert!(statements.iter().filter(of_sessions).count() > 3, "{statements:?}");
    for statement in statements {
        let explain = Statement { sql: format!("EXPLAIN {}", statement.sql), ..statement.clone() };
        let plan = store.database().reader().query_all_raw(explain).await;
        let plan: Vec<String> = plan.unwrap().iter().map(|row| row.try_get_by_index(0).unwrap()).collect();
        assert!(!plan.iter().any(|line| line.starts_with("JIT")), "{statement}: {plan:#?}");
    }
}
