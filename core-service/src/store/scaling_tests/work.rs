//! The work of a call in the database: on SQLite the steps of its virtual machine, on PostgreSQL the pages
//! that it accesses.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU64, Ordering},
};

use futures_util::future::join_all;
use petstore_database::testing::READERS;
use sea_orm::{ConnectionTrait, Statement};
use tokio::sync::Barrier;

use crate::store::scaling_tests::{CALLS, Store};

/// Cost of each of the calls, and of reading most pets.
#[derive(Debug)]
pub(super) struct Costs {
    calls: Vec<u64>,
    most: u64,
}

/// Fails if a call among many pets costs more than among few by over a fifth and `levels`. The cost of
/// reading most pets has to grow, which shows that the work is counted.
pub(super) fn assert_same(few: &Costs, many: &Costs, levels: u64) {
    println!("{few:?} {many:?}");
    for (((what, _), few), many) in CALLS.iter().zip(&few.calls).zip(&many.calls) {
        assert!(many * 5 <= few * 6 + levels * 5, "{what} costs {many} instead of {few}");
    }
    assert!(many.most > 10 * few.most, "it is not counted what is read: {} and {}", many.most, few.most);
}

/// Returns a statement that reads as many pets as a slow disk provides within the timeout of a statement.
fn read_most(store: &Store) -> Statement {
    let sql = "SELECT count(*) FROM (SELECT id FROM pets WHERE name > 'A' LIMIT 100000) AS most";
    Statement::from_string(store.database().reader().backend(), sql)
}

/// Number of times that a call is made on SQLite, so that each connection makes it at least once. The first
/// time it reads the schema and prepares the statement, which is not counted.
const REPEATED: usize = 8;

/// Returns the steps of SQLite's virtual machine.
pub(super) async fn steps(store: &Store, count: i64) -> Costs {
    let steps = count_steps(store).await;
    let mut calls = Vec::new();
    for (_, call) in CALLS {
        let mut cost = u64::MAX;
        for _ in 0..REPEATED {
            let before = steps.load(Ordering::Relaxed);
            call.make(store, count).await;
            cost = cost.min(steps.load(Ordering::Relaxed) - before);
        }
        calls.push(cost);
    }
    let before = steps.load(Ordering::Relaxed);
    store.database().reader().query_all_raw(read_most(store)).await.unwrap();
    Costs { calls, most: steps.load(Ordering::Relaxed) - before }
}

/// Counts the steps of every connection that reads.
async fn count_steps(store: &Store) -> Arc<AtomicU64> {
    let steps = Arc::<AtomicU64>::default();
    let all_at_once = Arc::new(Barrier::new(READERS)); // so that each connection gets one of the jobs
    let setting_up = (0..READERS).map(|_| {
        let (steps, all_at_once) = (Arc::clone(&steps), Arc::clone(&all_at_once));
        store.database().reader().read(move |session| {
            Box::pin(async move {
                all_at_once.wait().await;
                session
                    .on_each_step(move || {
                        steps.fetch_add(1, Ordering::Relaxed);
                    })
                    .await;
                Ok(())
            })
        })
    });
    for set_up in join_all(setting_up).await {
        set_up.unwrap();
    }
    steps
}

/// Returns the pages that PostgreSQL accesses.
pub(super) async fn pages(store: &Store, count: i64) -> Costs {
    let mut observed = store.clone();
    let sent = Arc::<Mutex<Option<Statement>>>::default();
    let last = Arc::clone(&sent);
    observed.observe(move |info| *last.lock().unwrap() = Some(info.statement.clone()));
    let mut calls = Vec::new();
    for (_, call) in CALLS {
        call.make(&observed, count).await;
        let statement = sent.lock().unwrap().take().unwrap();
        calls.push(explained_pages(store, &statement).await);
    }
    Costs { calls, most: explained_pages(store, &read_most(store)).await }
}

async fn explained_pages(store: &Store, statement: &Statement) -> u64 {
    let sql = format!("EXPLAIN (ANALYZE, BUFFERS, TIMING OFF) {}", statement.sql);
    let explain = Statement { sql, ..statement.clone() };
    let rows = store.database().writer().query_all_raw(explain).await.unwrap();
    let plan: Vec<_> = rows.iter().map(|row| row.try_get_by_index::<String>(0).unwrap()).collect();
    // The first line of that kind is the total of the plan: `Buffers: shared hit=5 read=2`.
    let buffers = plan.iter().find_map(|line| line.trim().strip_prefix("Buffers: shared "));
    let counts = buffers.unwrap_or_else(|| panic!("{plan:#?}")).split(' ').filter_map(|part| {
        let (what, count) = part.split_once('=')?;
        matches!(what, "hit" | "read").then(|| count.parse::<u64>().unwrap())
    });
    counts.sum()
}
