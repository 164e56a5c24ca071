mod few_connections;

use std::time::{Duration, Instant};

use petstore_test_servers::{
    faults::postgres::{Action, MessageFault, PostgresProxy, Side},
    servers::{PgBouncerServer, PostgresOptions, PostgresServer},
};
use sea_orm::{
    ConnectionTrait, DbBackend, Statement,
    sqlx::{ConnectOptions, postgres::PgConnectOptions},
};

use crate::{
    Database, DatabaseError, DatabaseUrl, OpenOptions,
    connection::Connections,
    fault::is_outage,
    schema,
    test_support::{Items, MIGRATE, SCHEMA, new_on_postgres, new_schema, open},
    testing::foreign_transaction,
};

const AS_IT_IS: OpenOptions = OpenOptions { migrate: false, quick_check: true };
/// Maximum time from a call to a failing database until its refusal: 1.6 s on an idle machine, and longer on
/// a busy one. Without these limits a call would wait until a frozen server resumes.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(8);
/// Maximum time from the attempt to open a database at an address that does not answer until its refusal: 3 s
/// on an idle machine.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(8);
/// Maximum time from the end of an outage until calls are answered: 2 s on an idle machine.
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(20);

fn url(written: &str) -> DatabaseUrl {
    written.parse().unwrap()
}

async fn refusal(written: &str) -> String {
    refusal_within(REFUSAL_TIMEOUT, written).await
}

async fn refusal_within(longest: Duration, written: &str) -> String {
    let start = Instant::now();
    let error = Database::open(&url(written), &SCHEMA, MIGRATE).await.map(drop).unwrap_err();
    assert!(start.elapsed() < longest, "{:?}", start.elapsed());
    let mut text = error.to_string();
    let mut cause: Option<&dyn std::error::Error> = std::error::Error::source(&error);
    while let Some(next) = cause {
        text = format!("{text}: {next}");
        cause = next.source();
    }
    assert!(!text.contains("SECRET") && !format!("{error:?}").contains("SECRET"), "{error:?}");
    text
}

async fn setting(connections: &Connections, name: &str) -> String {
    let show = Statement::from_string(DbBackend::Postgres, format!("SHOW {name}"));
    connections.query_one_raw(show).await.unwrap().unwrap().try_get_by_index(0).unwrap()
}

#[tokio::test]
async fn the_server_cancels_abandoned_statements() {
    let (items, _database) = new_on_postgres().await;
    assert_settings(&items).await;
}

#[tokio::test]
async fn settings_of_sessions_hold_behind_pgbouncer() {
    let (_items, database) = new_on_postgres().await;
    let pooler = PgBouncerServer::start(PostgresServer::shared().await.address()).await;
    assert_settings(&open(&url(&database.url_at(pooler.address()))).await).await;
}

async fn assert_settings(items: &Items) {
    for (name, value) in [
        ("statement_timeout", "2s"),
        ("lock_timeout", "1s"),
        ("idle_in_transaction_session_timeout", "5s"),
        ("plan_cache_mode", "force_custom_plan"),
        ("enable_bitmapscan", "off"),
        ("enable_seqscan", "off"),
        ("jit", "off"),
        ("default_transaction_read_only", "on"),
        ("application_name", "petstore"),
    ] {
        assert_eq!(setting(&items.database.reader, name).await, value, "{name}");
    }
}

#[tokio::test]
async fn a_wrong_address_name_or_password_is_reported_at_once_without_the_password() {
    let options = PostgresOptions { password: Some("letmein"), ..PostgresOptions::default() };
    let server = PostgresServer::start(options).await;
    let address = server.address();
    let text = refusal(&format!("postgres://postgres:SECRET@{address}/postgres")).await;
    assert!(
        text.starts_with(&format!("PostgreSQL at {address} refuses a connection as postgres: password")),
        "{text}"
    );
    let text = refusal(&format!("postgres://postgres:letmein@{address}/nowhere")).await;
    assert_eq!(text, format!("PostgreSQL at {address} has no database nowhere: create it first"));

    drop(server);
    let text = refusal(&format!("postgres://postgres:SECRET@{address}/postgres")).await;
    assert!(text.starts_with(&format!("cannot reach PostgreSQL at {address}: Connection refused")), "{text}");
}

#[tokio::test]
async fn connecting_to_a_silent_server_times_out() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = silent.local_addr().unwrap();
    let text =
        refusal_within(CONNECT_TIMEOUT, &format!("postgres://postgres:SECRET@{address}/postgres")).await;
    assert_eq!(text, format!("cannot reach PostgreSQL at {address}: no answer within 3s"));
}

#[tokio::test]
async fn a_slow_login_succeeds() {
    const PROBE_TIMEOUT: Duration = Duration::from_millis(1_600);
    const SCHEMA_TIMEOUT: Duration = Duration::from_millis(1_100);
    let database = new_schema().await;
    let proxy = PostgresProxy::to(PostgresServer::shared().await.address()).await;
    let slow = |by| {
        let statement = Some("startup".to_owned());
        let (side, message, action) = (Side::Backend, "Authentication", Action::Hold(by));
        proxy.inject(MessageFault { statement, side, message, skipped: 0, action }, RECOVERY_TIMEOUT)
    };
    let url = url(&database.url_at(proxy.address()));
    let (probe, schema, store) =
        tokio::join!(slow(PROBE_TIMEOUT), slow(SCHEMA_TIMEOUT), Database::open(&url, &SCHEMA, AS_IT_IS));
    store.unwrap().ping().await.unwrap();
    assert!(probe.is_some() && schema.is_some(), "two connections are made to open a store");
}

#[tokio::test]
async fn a_database_that_cannot_keep_the_store_is_refused() {
    let server = PostgresServer::shared().await;
    let database = server.database().await;
    database
        .psql(&format!("ALTER DATABASE {} SET default_transaction_read_only = on", database.name()))
        .await;
    let text = refusal(&database.url()).await;
    assert!(text.ends_with("takes no writes: it is a replica, or was made read-only"), "{text}");

    let name = format!("{}_latin1", database.name());
    server.psql(&format!("CREATE DATABASE {name} TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'")).await;
    let text = refusal(&format!("postgres://postgres@{}/{name}", server.address())).await;
    assert!(text.contains("LATIN1"), "{text}");
}

#[tokio::test]
async fn a_user_without_a_privilege_learns_which_one_it_lacks() {
    let database = PostgresServer::shared().await.database().await;
    let role = format!("{}_app", database.name());
    database.psql(&format!("CREATE ROLE {role} LOGIN")).await;
    let as_role = database.url().replacen("postgres@", &format!("{role}@"), 1);
    for denied in ["schema public", "table seaql_migrations"] {
        let text = refusal(&as_role).await;
        let remedy = "grant the privilege to its user, or migrate as the owner of the database";
        assert_eq!(text, format!("{as_role}: permission denied for {denied}; {remedy}"));
        open(&url(&database.url())).await;
    }
}

#[tokio::test]
async fn a_server_that_refuses_a_connection_is_not_called_unreachable() {
    let server = PostgresServer::shared().await;
    let database = server.database().await;
    let (name, role) = (database.name(), format!("{}_app", database.name()));
    database.psql(&format!("CREATE ROLE {role} LOGIN")).await;
    let as_role = database.url().replacen("postgres@", &format!("{role}@"), 1);
    for (statement, reason) in [
        (format!("REVOKE CONNECT ON DATABASE {name} FROM PUBLIC"), "permission denied for database"),
        (format!("GRANT CONNECT ON DATABASE {name} TO {role}"), "permission denied for schema"),
        (format!("ALTER DATABASE {name} ALLOW_CONNECTIONS false"), "database"),
        (format!("ALTER ROLE {role} CONNECTION LIMIT 0"), "too many connections for role"),
        (format!("ALTER ROLE {role} NOLOGIN"), "role"),
    ] {
        server.psql(&statement).await;
        let text = refusal(&as_role).await;
        let is_connected = reason.ends_with("schema");
        let refused = format!("PostgreSQL at {} refuses a connection as {role}: {reason}", server.address());
        let expected = if is_connected { format!("{as_role}: {reason}") } else { refused };
        assert!(text.starts_with(&expected), "{statement}: {text}");
        let later = sea_orm::Database::connect(&as_role).await;
        assert_eq!(later.is_err_and(|error| is_outage(&error)), !is_connected, "{statement}: while it runs");
    }
}

/// Tests names that mean something in SQL, in `format` or in quotes.
#[tokio::test]
async fn the_sequence_of_copied_rows_is_advanced_whatever_the_table_is_called() {
    let (_items, database) = new_on_postgres().await;
    let names = [r#""Order""#, r#""it's 100 %s; --""#, r#""a ""b"".c""#, r#""größe""#];
    for name in names {
        let identity = "bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY";
        database.psql(&format!("CREATE TABLE {name} ({name} {identity}, note text)")).await;
        database.psql(&format!("INSERT INTO {name} ({name}) VALUES (7)")).await;
    }
    open(&url(&database.url())).await;
    for name in names {
        let id = database.psql(&format!("INSERT INTO {name} DEFAULT VALUES RETURNING {name}")).await;
        assert!(id.starts_with('8'), "{name}: {id}");
    }
}

#[tokio::test]
async fn a_migration_that_waits_for_a_lock_blocks_no_call() {
    let (items, database) = new_on_postgres().await;
    let url = url(&database.url());
    let dump = foreign_transaction(&url).await.unwrap();
    dump.execute_unprepared("LOCK TABLE tags IN ACCESS SHARE MODE").await.unwrap(); // as pg_dump does
    let calls = async {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(5) {
            items.add("a").await.unwrap();
            items.find(1).await.unwrap();
        }
        dump.rollback().await.unwrap();
        Instant::now()
    };
    let change = async { (schema::down(&url, &SCHEMA, 1).await, Instant::now()) };
    let (released_at, (changed, changed_at)) = tokio::join!(calls, Box::pin(change));
    changed.unwrap();
    assert!(changed_at > released_at, "it waited for the lock");
}

#[tokio::test]
async fn a_server_that_is_down_frozen_or_read_only_is_an_outage_that_ends() {
    let mut server = PostgresServer::start(PostgresOptions::default()).await;
    let database = server.database().await;
    let items = open(&url(&database.url())).await;
    items.add("a").await.unwrap();

    server.pause();
    is_away(&items).await;
    server.resume();
    is_back(&items).await;

    server.stop_immediate().await;
    is_away(&items).await;
    server.restart().await;
    is_back(&items).await;

    server.kill9().await;
    is_away(&items).await;
    server.restart().await;
    is_back(&items).await;

    database
        .psql(&format!("ALTER DATABASE {} SET default_transaction_read_only = on", database.name()))
        .await;
    database.terminate_backends().await;
    let refusal = items.add("a").await.unwrap_err();
    assert!(matches!(refusal, DatabaseError::Unavailable(_)), "{refusal:?}");
    assert!(items.find(1).await.unwrap().is_some(), "reads go on");
    let name = database.name();
    server.psql(&format!("ALTER DATABASE {name} RESET default_transaction_read_only")).await;
    database.terminate_backends().await;
    is_back(&items).await;
}

async fn is_away(items: &Items) {
    for _ in 0..3 {
        let start = Instant::now();
        let (found, inserted) = tokio::join!(items.find(1), items.add("a"));
        assert!(start.elapsed() < REFUSAL_TIMEOUT, "{:?}", start.elapsed());
        assert!(matches!(found, Err(DatabaseError::Unavailable(_))), "{found:?}");
        assert!(matches!(inserted, Err(DatabaseError::Unavailable(_))), "{inserted:?}");
    }
}

async fn is_back(items: &Items) {
    petstore_test_servers::eventually(RECOVERY_TIMEOUT, async || {
        let (found, inserted) = tokio::join!(items.find(1), items.add("a"));
        found.map(drop).and(inserted.map(drop)).map_err(|error| format!("{error:?}"))
    })
    .await;
}

#[tokio::test]
async fn a_server_without_connections_to_spare_is_an_outage_unless_the_core_has_one() {
    let options = PostgresOptions {
        settings: vec![("max_connections", "10"), ("superuser_reserved_connections", "0")],
        ..PostgresOptions::default()
    };
    let server = PostgresServer::start(options).await;
    let database = server.database().await;
    let url = url(&database.url());
    let items = open(&url).await;
    let mut others = Vec::new();
    loop {
        match url.to_string().parse::<PgConnectOptions>().unwrap().connect().await {
            Ok(connection) => others.push(connection),
            Err(error) => break assert!(error.to_string().contains("too many clients"), "{error}"),
        }
    }
    is_away(&items).await;
    others.truncate(others.len() - 3); // for finds, for adds and for other reads
    is_back(&items).await;
    for inserted in futures_util::future::join_all((0..40).map(|_| items.add("a"))).await {
        assert!(matches!(inserted, Ok(_) | Err(DatabaseError::Unavailable(_))), "{inserted:?}");
    }
    let reader = items.database.reader();
    let read = || reader.query(Statement::from_string(DbBackend::Postgres, "SELECT 1 FROM pg_sleep(0.02)"));
    petstore_test_servers::eventually(RECOVERY_TIMEOUT, async || {
        read().await.map(drop).map_err(|error| error.to_string())
    })
    .await;
    for answer in futures_util::future::join_all((0..10).map(|_| read())).await {
        answer.expect("one connection is enough");
    }
}
