//! Tests that exactly the limit is admitted in every window, over several concurrent gateways.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use futures_util::future::{self, BoxFuture};
use petstore_clock::{Clock, UnixMillis};
use petstore_test_servers::servers::{RedisOptions, RedisServer};

use super::patient_limiter_by;
use crate::{Outcome, Quota, conformance_tests::key};

const START: UnixMillis = UnixMillis(1_795_200_000_000);

/// Number of concurrent requests of each gateway.
const CALLERS: u64 = 16;

/// Function that decides on a request of the account. It returns `true` if the request is admitted, and the
/// end of its minute.
type Gateway = Arc<dyn Fn(i64, u64) -> BoxFuture<'static, (bool, u64)> + Send + Sync>;

/// Sends three times the limit in each of some minutes, over all gateways concurrently. Returns the number of
/// admitted requests for each minute.
async fn admitted(
    gateways: &[Gateway],
    account: i64,
    limit: u64,
    minutes: u64,
    next_minute: impl Fn(),
) -> Vec<u64> {
    let mut of_minutes = Vec::new();
    for _ in 0..minutes {
        let senders = gateways.iter().flat_map(|gateway| (0..CALLERS).map(move |caller| (gateway, caller)));
        let all = CALLERS * gateways.len() as u64;
        let offers = senders.enumerate().map(|(index, (gateway, _))| {
            let share = (3 * limit).div_ceil(all) + u64::from((index as u64) < 3 * limit % all);
            let gateway = Arc::clone(gateway);
            tokio::spawn(async move {
                let mut answers = Vec::new();
                for _ in 0..share {
                    answers.push(gateway(account, limit).await);
                }
                answers
            })
        });
        let mut by_window = HashMap::<u64, u64>::new();
        for answers in future::join_all(offers).await {
            for (is_admitted, window) in answers.expect("the sender ends in order") {
                *by_window.entry(window).or_default() += u64::from(is_admitted);
            }
        }
        of_minutes.extend(by_window.into_values().filter(|count| *count > 0));
        next_minute();
    }
    of_minutes
}

async fn decisions_are_exact(gateways: usize, limits_and_minutes: &[(u64, u64)]) {
    static ACCOUNT: AtomicI64 = AtomicI64::new(1);
    let redis = RedisServer::start(RedisOptions::default()).await;
    let (clock, hand) = Clock::manual(START);
    let gateways: Vec<Gateway> = (0..gateways)
        .map(|index| {
            let limiter = patient_limiter_by(&[redis.url()], clock.clone());
            let gateway: Gateway = Arc::new(move |account, per_minute| {
                let limiter = Arc::clone(&limiter);
                Box::pin(async move {
                    use crate::RateLimiter;
                    let quota = Quota { per_minute, per_day: 1 << 40 };
                    let limit_key = key(account, &index.to_string());
                    let decision = limiter.take(&limit_key, quota, UnixMillis(0)).await.expect("Redis is up");
                    (decision.outcome == Outcome::Admitted, decision.minute.resets_at.0)
                })
            });
            gateway
        })
        .collect();
    for (limit, minutes) in limits_and_minutes {
        let account = ACCOUNT.fetch_add(1, Ordering::Relaxed);
        let next_minute = || hand.advance(Duration::from_mins(1));
        let admitted = admitted(&gateways, account, *limit, *minutes, next_minute).await;
        let expected = vec![*limit; usize::try_from(*minutes).unwrap()];
        assert_eq!(admitted, expected, "limit {limit}, {} gateways", gateways.len());
    }
}

/// Returns the factor for the usual number of decisions: `PETSTORE_TEST_FACTOR=12` makes more than a million.
fn factor() -> u64 {
    std::env::var("PETSTORE_TEST_FACTOR").map_or(1, |factor| factor.parse().expect("a number"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn any_number_of_gateways_admits_exactly_the_limit_in_every_window() {
    for gateways in [1, 2, 4] {
        decisions_are_exact(gateways, &[(1, 10), (2, 10), (60, 20), (5_000, 2 * factor())]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_limiter_that_checks_before_it_counts_is_detected() {
    let redis = RedisServer::start(RedisOptions::default()).await;
    let client = redis::Client::open(redis.url()).unwrap();
    let mut gateways = Vec::<Gateway>::new();
    for _ in 0..4 {
        let connection = client.get_multiplexed_async_connection().await.unwrap();
        gateways.push(Arc::new(move |account, limit| {
            let mut connection = connection.clone();
            Box::pin(async move {
                let used: Option<u64> =
                    redis::cmd("GET").arg(account).query_async(&mut connection).await.unwrap();
                let is_admitted = used.unwrap_or(0) < limit;
                if is_admitted {
                    redis::cmd("INCR").arg(account).exec_async(&mut connection).await.unwrap();
                }
                (is_admitted, 1)
            })
        }));
    }
    for account in 0..20 {
        let admitted = admitted(&gateways, account, 60, 1, || ()).await;
        if admitted != [60] {
            return;
        }
    }
    panic!("the check passes a limiter that is not atomic");
}
