//! Any number of gateways on one Redis admit exactly the limit, in every window.
//!
//! These tests are over HTTP, the whole path of a request. The limiter alone is tested, with many more
//! decisions, beside its code. The checker is `petstore_testkit::history`, whose own tests show that it
//! finds a limiter that is not exact.

use std::time::{Duration, Instant};

use petstore_testkit::{
    SharedCounters, TestShop,
    history::{Record, Report, check},
    load::{Bounds, Load, Sender},
    servers::{RedisOptions, RedisServer},
};

/// Variable with the factor of the test's length: `scripts/test --long` sets it.
const FACTOR: &str = "PETSTORE_TEST_FACTOR";

/// Timeout longer than any load here takes.
const LOAD_TIMEOUT: Duration = Duration::from_mins(10);

/// Approximate time of a request, which gives the middle of the first load.
const REQUEST_INTERVAL: Duration = Duration::from_micros(300);

const WINDOW_INTERVAL: Duration = Duration::from_mins(1);

/// Day limit that is never reached, so that only the minute limits.
const PER_DAY: u64 = 1_000_000_000;

/// Accounts that are sent three times their limit in each of two windows, repeatedly; the end of the first
/// window is in mid-load.
#[derive(Clone, Copy, Debug)]
struct Case {
    accounts: usize,
    per_minute: u64,
    edges: usize,
}

impl Case {
    const fn new(accounts: usize, per_minute: u64, edges: usize) -> Self {
        Self { accounts, per_minute, edges }
    }

    /// Returns the number of requests between two edges.
    fn requests(self) -> usize {
        6 * self.accounts * usize::try_from(self.per_minute).unwrap()
    }

    fn repeated(self, times: usize) -> Self {
        Self { edges: self.edges * times, ..self }
    }
}

const CASES: [Case; 3] = [Case::new(10, 1, 3), Case::new(5, 2, 3), Case::new(1, 60, 3)];

/// Case that takes too long over HTTP for every day. Without HTTP such a limit is tested every day.
const LARGE: Case = Case::new(1, 5_000, 1);

fn cases() -> Vec<Case> {
    let times: usize = std::env::var(FACTOR).map_or(1, |factor| factor.parse().expect("a number"));
    let large = Some(LARGE).filter(|_| times > 1);
    CASES.map(|case| case.repeated(times)).into_iter().chain(large).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gateways_admit_exactly_the_limit_in_every_window() {
    for gateways in [1, 2, 4] {
        let redis = RedisServer::start(RedisOptions::default()).await;
        let shop = TestShop::open_on(&SharedCounters::by_clock(&[redis.url()]), gateways, &[]).await;
        for case in cases() {
            let mut senders = Vec::new();
            for account in 0..case.accounts {
                let key = shop.client_with(case.per_minute, PER_DAY).await.key().to_owned();
                senders.push(Sender { account, key });
            }
            let load = Load::new(&shop.gateways(), &senders);
            let bounds = Bounds { requests: case.requests(), time: LOAD_TIMEOUT };
            let records =
                across_edges(case, || load.closed_loop(bounds), || shop.advance(WINDOW_INTERVAL)).await;
            judge(&format!("{gateways} gateways, {case:?}"), case, &records);
        }
    }
}

/// Runs the load repeatedly; the clock moves to the next minute in the middle of it, and at its end.
async fn across_edges<F: Future<Output = Vec<Record>>>(
    case: Case,
    load: impl Fn() -> F,
    next_minute: impl Fn(),
) -> Vec<Record> {
    let mut records = Vec::new();
    let mut half = REQUEST_INTERVAL * u32::try_from(case.requests() / 2).unwrap();
    for _ in 0..case.edges {
        let start = Instant::now();
        let edge = async {
            tokio::time::sleep(half).await;
            next_minute();
        };
        records.extend(tokio::join!(load(), edge).0);
        half = start.elapsed() / 2;
        next_minute();
    }
    records
}

fn judge(what: &str, case: Case, records: &[Record]) {
    assert!(records.iter().all(|record| matches!(record.status, Ok(200 | 429))), "{what}");
    assert!(records.iter().all(|record| record.scope.is_none()), "{what}: all are counted in Redis");
    let report = check(records);
    report.assert_clean();
    let full = |report: &Report| {
        let counts = report.windows.values();
        counts.filter(|count| count.admitted == case.per_minute && count.refused > 0).count()
    };
    println!(
        "{what}: {} decisions, {} of {} windows used up",
        records.len(),
        full(&report),
        report.windows.len()
    );
    assert!(full(&report) >= case.edges, "the checker had too little to judge: {what}: {report}");
}
