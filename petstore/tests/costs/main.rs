//! Costs of requests, counted instead of timed, so that a change that increases them fails on any machine:
//! statements and round trips to the database, calls of Redis, allocations, system calls and
//! instructions per request, and the instructions of functions that every request runs through.
//!
//! `costs.json` beside this file has the numbers and their tolerances. After a change that justifies its
//! costs, or that lowers one, accept the new numbers and commit the file with the change:
//!
//! ```sh
//! PETSTORE_ACCEPT_COSTS=1 cargo test -p petstore --test costs
//! ```
//!
//! The numbers are those of the test build, which is not optimised. They compare one revision with another,
//! not the service with other programs.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that cannot go on fails by panicking"
)]

mod binaries;
mod deployment;
mod instructions;
mod recorded;
mod requests;

use std::{alloc::System, collections::BTreeMap, future, thread, time::Duration};

use futures_util::future::join_all;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use tokio::{
    sync::{Mutex, MutexGuard},
    task,
};

use binaries::Counter;
use deployment::Deployment;
use recorded::Costs;
use requests::{Connection, Operation};

/// Counts the allocations of the whole process.
#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Number of parts of the load; for requests at once, the number without a lower count after which the lowest
/// is accepted. The minimum of the parts is taken, and each is short, so that periodic work does not count,
/// regardless of the machine's speed.
pub(crate) const PARTS: usize = 40;

/// Number of requests in a part, one after the other.
const REQUESTS: usize = 10;

/// Number of requests in a part, at once.
const AT_ONCE: usize = 16;

/// Maximum number of different requests whose allocations are counted.
const DIFFERENT: usize = 11;

/// Number of requests without a lower number of allocations after which the lowest is accepted.
const CONFIRMED: usize = 50 * DIFFERENT;

/// Number of requests after which the lowest number of allocations is accepted even if it is too high. On a
/// busy machine few requests find the answer of another thread without a wait, which allocates.
const MOST_REQUESTS: usize = 20 * CONFIRMED;

/// Number of times that all other tasks may run after a response, to finish the work of its request.
const TURNS: usize = 16;

/// Takes the lock of the tests of this file. They run in turn, because they count for the process and the
/// machine.
async fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::const_new(());
    TURN.lock().await
}

#[tokio::test]
async fn a_request_to_one_process_on_sqlite_costs_what_is_recorded() {
    let _turn = turn().await;
    counted(Deployment::one_process().await, "one process on SQLite").await;
}

#[tokio::test]
async fn a_request_through_gateway_and_core_on_postgresql_and_redis_costs_what_is_recorded() {
    let _turn = turn().await;
    counted(Deployment::split().await, "gateway and core on PostgreSQL and Redis").await;
}

#[tokio::test]
async fn a_request_makes_the_recorded_number_of_system_calls() {
    let _turn = turn().await;
    binaries::gateway_and_core(Counter::Strace).await.compare("system calls of gateway and core");
}

#[tokio::test]
#[ignore = "a busy machine changes what meets whom, and so the number: `scripts/test --long` runs it"]
async fn a_request_takes_the_recorded_number_of_instructions_in_either_deployment() {
    let _turn = turn().await;
    // One after the other, as they run on the same processor.
    let one = binaries::one_process(Counter::Callgrind).await;
    let two = binaries::gateway_and_core(Counter::Callgrind).await;
    one.compare("instructions of a request to one process on SQLite");
    two.compare("instructions of a request through gateway and core on PostgreSQL and Redis");
}

#[tokio::test]
async fn functions_on_the_path_of_every_request_take_the_recorded_number_of_instructions() {
    let _turn = turn().await;
    instructions::counted().await.compare("instructions");
}

/// Compares the costs of each operation with the committed ones: one request after the other, and many at
/// once.
async fn counted(deployment: Deployment, section: &str) {
    let mut costs = Costs::default();
    for operation in Operation::ALL {
        let requests = operation.requests(deployment.rest, &deployment.key);
        let mut connections = Vec::new();
        for _ in 0..AT_ONCE {
            connections.push(Connection::open(deployment.rest).await);
        }
        let (mut burst, mut part, mut last_change) = (BTreeMap::new(), 0, 0);
        while part - last_change <= PARTS {
            let before = deployment.counters().await;
            let at = |place: usize| &requests[(part * AT_ONCE + place) % requests.len()];
            let all = connections.iter_mut().enumerate();
            join_all(all.map(|(place, connection)| connection.exchange(at(place)))).await;
            if part > 0 {
                // the first opens connections to the servers and fills caches
                let counted = deployment.counters().await.per_request_since(&before, AT_ONCE);
                let least = recorded::least(vec![burst.clone(), counted]);
                if least != burst {
                    (burst, last_change) = (least, part);
                }
            }
            part += 1;
        }
        costs.insert(format!("{}, {AT_ONCE} at once", operation.name()), burst);

        let alone = connections.first_mut().expect("a connection");
        let mut lone = Vec::new();
        for _ in 0..PARTS {
            let before = deployment.counters().await;
            for request in requests.iter().cycle().take(REQUESTS) {
                alone.exchange(request).await;
            }
            lone.push(deployment.counters().await.per_request_since(&before, REQUESTS));
        }
        let mut lone = recorded::least(lone);
        let most = recorded::most(section, operation.name(), "allocations");
        lone.insert("allocations".to_owned(), allocations(alone, &requests, most).await);
        costs.insert(operation.name().to_owned(), lone);
    }
    costs.compare(section);
}

/// Returns the mean allocations of different requests. The minimum of each is taken, because tasks that run
/// by the clock allocate too, and so does every wait for a part of an answer.
async fn allocations(connection: &mut Connection, requests: &[Vec<u8>], most: f64) -> f64 {
    let requests = &requests[..requests.len().min(DIFFERENT)];
    let mut least = vec![usize::MAX; requests.len()];
    let (mut count, mut last_change) = (0, 0);
    let mean = |least: &[usize]| recorded::ratio(least.iter().sum(), least.len());
    while count - last_change < CONFIRMED || (mean(&least) > most && count < MOST_REQUESTS) {
        let (place, pauses) = (count % requests.len(), pauses(count % 2 == 0));
        let region = Region::new(ALLOCATOR);
        tokio::select! {
            () = connection.exchange(&requests[place]) => {}
            () = pauses => {}
        }
        for _ in 0..TURNS {
            task::yield_now().await;
        }
        let heap = region.change();
        let allocated = heap.allocations + heap.reallocations;
        if allocated < least[place] {
            (least[place], last_change) = (allocated, count);
        }
        count += 1;
    }
    mean(&least)
}

/// Never returns. If `are_made`, stops the thread of all tasks again and again, for longer than SQLite's
/// thread or a server takes for an answer, so that it arrives as a whole.
async fn pauses(are_made: bool) {
    if !are_made {
        future::pending::<()>().await;
    }
    loop {
        thread::sleep(Duration::from_millis(3));
        task::yield_now().await;
    }
}

/// Counters of a deployment so far, by the names of `costs.json`.
#[derive(Debug)]
pub(crate) struct Counters(BTreeMap<&'static str, u64>);

impl Counters {
    fn per_request_since(&self, before: &Self, requests: usize) -> BTreeMap<String, f64> {
        let since = |name| usize::try_from(self.0[name] - before.0[name]).expect("a small number");
        self.0.keys().map(|name| ((*name).to_owned(), recorded::ratio(since(name), requests))).collect()
    }
}
