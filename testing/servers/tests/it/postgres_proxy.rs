//! Faults at single messages of PostgreSQL's protocol, between `psql` and a real server.

use std::time::{Duration, Instant};

use petstore_test_servers::{
    faults::postgres::{Action, MessageFault, MessageSite, PostgresProxy, Side},
    servers::{Database, PostgresServer},
};

/// Time that is enough for anything that is not held up.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
const HOLD_INTERVAL: Duration = Duration::from_millis(300);

#[tokio::test]
async fn without_a_fault_everything_passes_and_is_recorded() {
    let (database, proxy) = proxied().await;
    assert_eq!(database.try_psql_at(proxy.address(), "SELECT name FROM pets").await.unwrap(), "Rex");
    let seen = proxy.seen();
    for (statement, side, message) in [
        ("startup", Side::Frontend, "StartupMessage"),
        ("startup", Side::Backend, "ReadyForQuery"),
        ("SELECT pets", Side::Frontend, "Query"),
        ("SELECT pets", Side::Backend, "DataRow"),
        ("SELECT pets", Side::Backend, "CommandComplete"),
        ("SELECT pets", Side::Backend, "ReadyForQuery"),
    ] {
        assert_eq!(seen.get(&site(statement, side, message)), Some(&1), "{statement} {message}: {seen:?}");
    }
}

#[tokio::test]
async fn a_delayed_or_halved_answer_arrives_late_and_whole() {
    let (database, proxy) = proxied().await;
    let answer = site("SELECT pets", Side::Backend, "DataRow");
    for action in [Action::Hold(HOLD_INTERVAL), Action::Halve(HOLD_INTERVAL)] {
        let start = Instant::now();
        let (injected, rows) = tokio::join!(
            proxy.inject(MessageFault::at(&answer, action), ANSWER_TIMEOUT),
            database.try_psql_at(proxy.address(), "SELECT name FROM pets"),
        );
        assert_eq!(injected.unwrap().action, action);
        assert_eq!(rows.unwrap(), "Rex");
        assert!(start.elapsed() >= HOLD_INTERVAL, "{action:?}");
    }
    proxy.nothing_held().await;
}

#[tokio::test]
async fn a_statement_is_executed_only_if_the_cut_comes_after_it() {
    let (database, proxy) = proxied().await;
    let query = site("INSERT pets", Side::Frontend, "Query");
    let complete = site("INSERT pets", Side::Backend, "CommandComplete");
    let mut expected = 1;
    for (site, action, is_executed) in [
        (&query, Action::CutBefore, false),
        (&query, Action::CutWithin, false),
        (&complete, Action::CutBefore, true),
        (&complete, Action::CutWithin, true),
        (&complete, Action::CutAfter, true),
    ] {
        let (injected, answer) = tokio::join!(
            proxy.inject(MessageFault::at(site, action), ANSWER_TIMEOUT),
            database.try_psql_at(proxy.address(), "INSERT INTO pets VALUES ('Tom')"),
        );
        assert!(injected.is_some() && answer.is_err(), "{site:?} {action:?}: {answer:?}");
        expected += i32::from(is_executed);
        let count = database.psql("SELECT count(*) FROM pets").await;
        assert_eq!(count, expected.to_string(), "{site:?} {action:?}");
    }
}

#[tokio::test]
async fn a_fault_whose_message_does_not_arrive_is_withdrawn() {
    let (database, proxy) = proxied().await;
    let query = site("SELECT pets", Side::Frontend, "Query");
    let cut = MessageFault::at(&query, Action::CutBefore);
    assert_eq!(proxy.inject(cut, Duration::from_millis(10)).await, None);
    assert!(database.try_psql_at(proxy.address(), "SELECT name FROM pets").await.is_ok());
    assert!(proxy.injected().is_empty());
}

fn site(statement: &str, side: Side, message: &'static str) -> MessageSite {
    MessageSite { statement: statement.to_owned(), side, message }
}

/// Returns a database with one pet, and a proxy in front of it.
async fn proxied() -> (Database, PostgresProxy) {
    let server = PostgresServer::shared().await;
    let database = server.database().await;
    database.psql("CREATE TABLE pets (name text)").await;
    database.psql("INSERT INTO pets VALUES ('Rex')").await;
    (database, PostgresProxy::to(server.address()).await)
}
