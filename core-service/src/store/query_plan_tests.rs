//! Query plans of the databases: by key or index, regardless of the size of the tables.
//!
//! The tests make the calls, and let the database explain the statements that were sent. So no statement is
//! missed, and no statement is explained that is not sent.

use std::{
    sync::{Arc, Mutex},
    time::Instant,
};

use petstore_caller::{
    api_key::{Environment, KeyDigest},
    call::CallContext,
};
use petstore_clock::{Clock, UnixMillis};
use petstore_database::testing::Connections;
use petstore_grpc_server::Class;
use petstore_proto::{PageToken, lists, v1::ListOrdersRequest};
use prost::Message;
use sea_orm::{ConnectionTrait, DbBackend, Statement};

use super::{
    Store,
    test_support::{new_database, new_file, open_file},
};
use crate::{
    Core,
    accounts::{
        AccountId, Day, KeyId, Minute,
        store::{DaysOf, MinutesOf, UsedShare},
    },
    grpc::{METHODS, is_batched},
    orders::{OrderId, OrderStatus},
    pages::{PageRequest, PageSize},
    pets::{IdempotencyKey, ListPets, NewPet, PetId, PetStatus},
};

const NOW: UnixMillis = UnixMillis(1_800_000_000_000);
/// Number of rows at which the planner reads them all only if it has no better plan.
const ROWS: i64 = 20_000;
/// Number of names: far more than one sweep deletes.
const NAMES: i64 = 200_000;

/// Tables that grow.
const TABLES: [&str; 8] =
    ["pets", "orders", "create_requests", "accounts", "api_keys", "usage_days", "usage_minutes", "refusals"];

/// Tables of which an installation has a few rows, or which only operators list.
const SMALL_TABLES: [&str; 10] = [
    "imports",
    "revision",
    "installation",
    "bans",
    "brownouts",
    "usage_reporters",
    "refusal_counts",
    "operators",
    "audit_events",
    "operator_sessions",
];

#[tokio::test]
async fn every_table_is_filled_or_stays_small() {
    let (store, _folder) = new_file().await;
    let tables = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' \
                  AND name NOT LIKE '%migrations' ORDER BY 1";
    let tables = Statement::from_string(DbBackend::Sqlite, tables);
    let found = store.database.reader().query_all_raw(tables).await.unwrap();
    let found: Vec<String> = found.iter().map(|row| row.try_get_by_index(0).unwrap()).collect();
    let mut known = [&TABLES[..], &SMALL_TABLES].concat();
    known.sort_unstable();
    assert_eq!(found, known, "a table that grows has rows in `rows`, and its changes are in `make_calls`");
    let filled = rows(DbBackend::Sqlite, 1, 1, 1);
    for table in TABLES {
        let insert = format!("INSERT INTO {table} ");
        assert!(filled.iter().any(|sql| sql.contains(&insert)), "{table} is not filled");
    }
}

/// Returns the statements that fill the tables.
fn fill(engine: DbBackend) -> Vec<String> {
    let mut statements = rows(engine, 1, ROWS, NAMES);
    statements.push("ANALYZE".to_owned());
    statements
}

/// Returns the statements that add rows of each kind, from the first number to the last one.
fn rows(engine: DbBackend, first: i64, last: i64, last_name: i64) -> Vec<String> {
    let rows = |last: i64, insert: &str| {
        let numbers = format!(
            "WITH RECURSIVE numbers (n) AS (SELECT {first} UNION ALL \
             SELECT n + 1 FROM numbers WHERE n < {last})"
        );
        let (into, select) = insert.split_once(" SELECT ").unwrap();
        match engine {
            DbBackend::Sqlite => format!("{numbers} INSERT INTO {into} SELECT {select} FROM numbers"),
            _ => format!("INSERT INTO {into} {numbers} SELECT {select} FROM numbers"),
        }
    };
    let digest = match engine {
        DbBackend::Sqlite => "CAST('digest ' || n AS BLOB)",
        _ => "convert_to('digest ' || n, 'UTF8')",
    };
    vec![
        rows(last, "pets (name, category_id, status) SELECT 'Rex', 1, nullif(n % 4, 0)"),
        rows(last, "orders (pet_id, quantity, status) SELECT n, 1, 1"),
        rows(
            last_name,
            &format!("create_requests (digest, pet_id, created_at) SELECT {digest}, n, {} + n", NOW.0),
        ),
        rows(last, "accounts (name, plan, created_at, revision) SELECT 'account ' || n, 'free', 1, n"),
        rows(
            last,
            &format!(
                "api_keys (id, account_id, digest, prefix, last_four, created_at) \
                 SELECT 'key ' || n, n, {digest}, 'pet_live_', 'abcd', 1"
            ),
        ),
        rows(
            last,
            "usage_days (account_id, day, succeeded, client_errors, refused, server_errors, get_pet) \
             SELECT n % 200, n / 200, 1, 0, 0, 0, 0",
        ),
        rows(
            last,
            "usage_minutes (account_id, minute, key_id, succeeded, client_errors, refused, server_errors, \
             get_pet) SELECT n % 200, n / 200, 'key ' || n, 1, 0, 0, 0, 0",
        ),
        rows(
            last,
            "refusals (request_id, refused_at, cause, account_id, repeats) \
             SELECT 'request ' || n, n, n % 7, n % 2000, 0",
        ),
        format!("UPDATE revision SET value = {last}"),
    ]
}

/// Makes every call that looks something up, changes or removes it, except the commands of operators that
/// list everything.
async fn make_calls(store: &Store) {
    for status in [None, Some(PetStatus::Available)] {
        for after in [None, Some(PetId(9)), Some(PetId(ROWS - 1_000))] {
            store.pets.list_pets(ListPets { size: PageSize::MAX, after, status }).await.unwrap();
        }
    }
    for after in [None, Some(9), Some(ROWS - 1_000)] {
        store.list_orders(PageRequest { list: lists::ORDERS, size: PageSize::MAX, after }).await.unwrap();
    }
    store.pets.find_pet(PetId(7)).await.unwrap().unwrap();
    store.find_order(OrderId(7)).await.unwrap().unwrap();
    store.advance_order(OrderId(7), OrderStatus::Approved).await.unwrap();

    let name = IdempotencyKey::parse("once").unwrap().unwrap();
    let rex = NewPet::named("Rex");
    let later = NOW.plus(IdempotencyKey::KEPT);
    for (now, replayed) in [(NOW, false), (NOW, true), (later, false)] {
        assert_eq!(store.pets.insert_pet_once(&name, rex.clone(), now).await.unwrap().replayed, replayed);
    }
    store.pets.forget_expired_requests(UnixMillis(later.0 + 100_000), 1_000).await.unwrap();

    store.accounts.resolve_keys(&[KeyDigest([7; 32])], Some(Environment::Production), NOW).await.unwrap();
    let digests = [1, 2, 3, 4, 5].map(|number| KeyDigest([number; 32]));
    store.accounts.resolve_keys(&digests, Some(Environment::Production), NOW).await.unwrap();
    let unknown: KeyId = "018f0000-0000-7000-8000-000000000000".parse().unwrap();
    store.accounts.resolve_key(unknown, NOW).await.unwrap();
    store.accounts.find_keys(&digests).await.unwrap();
    store.accounts.successor_of(unknown).await.unwrap();
    store.accounts.changes_after(ROWS - 10, 100).await.unwrap();
    store.accounts.record_key_use(&[("key 7".to_owned(), NOW)]).await.unwrap();
    store.accounts.usage_by_day(Some(AccountId(7)), Day(90), "gateway").await.unwrap();
    for after in [None, Some((AccountId(150), Day(70)))] {
        let month = DaysOf { days: Day(60)..Day(90), after, used: None };
        store.accounts.usage_by_account(month, 101).await.unwrap();
        for used in [UsedShare::NearLimit, UsedShare::OverLimit] {
            let today = DaysOf { days: Day(89)..Day(90), after, used: Some(used) };
            store.accounts.usage_by_account(today, 101).await.unwrap();
        }
    }

    let of_account = MinutesOf { account: Some(AccountId(7)), ..MinutesOf::default() };
    store.accounts.usage_by_minute(of_account, Minute(90), 1_440).await.unwrap();
    store.accounts.usage_by_minute(MinutesOf::default(), Minute(99), 1_440).await.unwrap();
    store.accounts.refusals_of_request("request 7").await.unwrap();
    store.accounts.refusals_of_account(AccountId(7), NOW).await.unwrap();
}

/// Calls every method that clients read with, of each list the first and later pages. So the reads of a
/// resource that is added are here without a line for each.
async fn call_every_read(store: &Store) {
    let mut core = Core::new(store.clone(), Clock::system());
    core.store = store.clone(); // whose statements are recorded
    let later = |list| [9, ROWS - 1_000].map(|last_id| PageToken { list, last_id }.to_string());
    let tokens: Vec<_> = (0..16).flat_map(|list| later(list * 16)).chain([String::new()]).collect();
    for method in METHODS.rows.iter().filter(|it| is_batched(it) && it.class == Class::Read) {
        let mut succeeded = 0;
        for page_token in tokens.clone() {
            // The requests of lists begin with these fields; others begin with an identifier.
            let request = ListOrdersRequest { page_size: 100, page_token }.encode_to_vec().into();
            let (id, caller, timeout, trace) = Default::default();
            let context = CallContext { id, caller, timeout, trace, started: Instant::now() };
            succeeded += usize::from(core.answer_call(method.path, request, context).await.is_ok());
        }
        assert!(succeeded == 3 || succeeded == tokens.len(), "{}: {succeeded} pages", method.path);
    }
}

/// Returns the statements that the calls send, without those that only insert.
async fn statements(store: Store) -> Vec<Statement> {
    let mut sent = sent_by(store.clone(), make_calls).await;
    assert!(sent.len() > 15, "{sent:?}");
    let reads = sent_by(store, call_every_read).await;
    assert!(reads.len() > 8, "{reads:?}");
    sent.extend(reads);
    sent
}

async fn sent_by(mut store: Store, calls: impl AsyncFnOnce(&Store)) -> Vec<Statement> {
    let sent = Arc::<Mutex<Vec<Statement>>>::default();
    let record = Arc::clone(&sent);
    store.observe(move |info| record.lock().unwrap().push(info.statement.clone()));
    calls(&store).await;
    let mut sent = std::mem::take(&mut *sent.lock().unwrap());
    sent.retain(|statement| {
        ["SELECT", "UPDATE", "DELETE", "WITH"].iter().any(|verb| statement.sql.starts_with(verb))
    });
    sent
}

/// Returns `true` if the rows that the statement sorts are bounded otherwise: the accounts that changed
/// within a second, those that are near their limit today, the days of a month, the minutes of a day, the
/// requests of one name, or the rows that it adds.
fn sorts_little(statement: &Statement) -> bool {
    [
        r#"ORDER BY "accounts"."revision""#,
        r#"FROM "usage_days" WHERE "account_id""#,
        r#"CASE WHEN ("accounts"."plan""#,
        r#"FROM "usage_minutes""#,
        r#"WHERE "refusals"."request_id""#,
        "INSERT INTO pets",
    ]
    .iter()
    .any(|part| statement.sql.contains(part))
}

async fn plan(connection: &Connections, explain: &str, statement: &Statement) -> Vec<String> {
    let explained = Statement { sql: format!("{explain} {}", statement.sql), ..statement.clone() };
    let rows = connection.query_all_raw(explained).await.unwrap();
    let line = |row: &sea_orm::QueryResult| {
        row.try_get("", "detail").or_else(|_| row.try_get_by_index::<String>(0)).unwrap()
    };
    rows.iter().map(line).collect()
}

/// Returns the plan as an error if it reads a whole table or sorts it.
async fn by_key_on_sqlite(connection: &Connections, statement: &Statement) -> Result<(), Vec<String>> {
    let plan = plan(connection, "EXPLAIN QUERY PLAN", statement).await;
    // It starts at the first key and stops once the page is full.
    let filters = statement.sql.replace(" WHERE TRUE ", " ").contains(" WHERE ");
    let is_first_page = plan.len() == 1 && statement.sql.contains(" LIMIT ") && !filters;
    let by_key = plan.iter().all(|step| {
        !TABLES.iter().any(|table| step.starts_with(&format!("SCAN {table}")))
            && (!step.contains("TEMP B-TREE") || sorts_little(statement))
    });
    if is_first_page || by_key { Ok(()) } else { Err(plan) }
}

#[tokio::test]
async fn no_statement_reads_a_whole_table_or_sorts_it_on_sqlite() {
    let (store, _folder) = new_file().await;
    for sql in fill(DbBackend::Sqlite) {
        if sql != "ANALYZE" {
            store.database.writer().execute_unprepared(&sql).await.unwrap();
        }
    }
    let statements = statements(store.clone()).await;
    for is_analysed in [false, true] {
        for statement in &statements {
            if let Err(plan) = by_key_on_sqlite(store.database.writer(), statement).await {
                panic!("analysed: {is_analysed}: {statement}: {plan:#?}");
            }
        }
        store.database.writer().execute_unprepared("ANALYZE").await.unwrap();
    }
}

/// Tests a store with statistics that earlier releases left when they closed it. These say permanently that a
/// table is small.
#[tokio::test]
async fn outdated_statistics_are_removed_when_a_file_is_opened() {
    let (old, folder) = new_file().await;
    for sql in rows(DbBackend::Sqlite, 1, 2, 2) {
        old.database.writer().execute_unprepared(&sql).await.unwrap();
    }
    old.database.writer().execute_unprepared("ANALYZE").await.unwrap();
    for sql in rows(DbBackend::Sqlite, 3, ROWS, NAMES) {
        old.database.writer().execute_unprepared(&sql).await.unwrap();
    }
    let statements = statements(old.clone()).await;
    let mut misled = 0;
    for statement in &statements {
        misled += usize::from(by_key_on_sqlite(old.database.reader(), statement).await.is_err());
    }
    assert!(misled > 0, "statistics of two rows mislead the planner");

    let new = open_file(folder.path()).await;
    // A process that had the file open all the time notices with its next statement.
    old.pets.insert_pet(NewPet::named("Rex")).await.unwrap();
    for (who, connection) in
        [("new", new.database.writer()), ("new", new.database.reader()), ("old", old.database.writer())]
    {
        for statement in &statements {
            if let Err(plan) = by_key_on_sqlite(connection, statement).await {
                panic!("{who}: {statement}: {plan:#?}");
            }
        }
    }
    new.database.close().await;
    old.database.close().await;
    let again = open_file(folder.path()).await;
    let left = Statement::from_string(
        DbBackend::Sqlite,
        "SELECT name FROM sqlite_schema WHERE name LIKE 'sqlite_stat%'",
    );
    assert!(
        again.database.reader().query_all_raw(left).await.unwrap().is_empty(),
        "closing analyses nothing"
    );
}

#[tokio::test]
async fn no_statement_reads_a_whole_table_or_sorts_it_on_postgresql() {
    let (store, database) = new_database().await;
    for sql in fill(DbBackend::Postgres) {
        database.psql(&sql).await;
    }
    all_by_key_on_postgresql(&store).await;
}

/// Tests tables that grew. PostgreSQL's planner uses the current size of a table, not its size when it was
/// analysed.
#[tokio::test]
async fn statistics_of_empty_and_small_tables_keep_the_plans_on_postgresql() {
    for first in [1, 3] {
        let (store, database) = new_database().await;
        for table in TABLES {
            database.psql(&format!("ALTER TABLE {table} SET (autovacuum_enabled = false)")).await;
        }
        if first > 1 {
            for sql in rows(DbBackend::Postgres, 1, first - 1, first - 1) {
                database.psql(&sql).await;
            }
        }
        database.psql("VACUUM ANALYZE").await;
        for sql in rows(DbBackend::Postgres, first, ROWS, NAMES) {
            database.psql(&sql).await;
        }
        all_by_key_on_postgresql(&store).await;
    }
}

async fn all_by_key_on_postgresql(store: &Store) {
    for statement in statements(store.clone()).await {
        let plan = plan(store.database.reader(), "EXPLAIN", &statement).await;
        let by_key = plan.iter().all(|step| {
            !TABLES.iter().any(|table| step.contains(&format!("Seq Scan on {table}")))
                && (!step.contains("Sort") || sorts_little(&statement))
        });
        assert!(by_key, "{statement}: {plan:#?}");
    }
}
