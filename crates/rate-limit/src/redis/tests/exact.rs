//! Tests that exactly the limit is admitted in every window, over several concurrent gateways.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures_util::future;
use petstore_clock::{Clock, UnixMillis};
use petstore_test_servers::servers::{RedisOptions, RedisServer};

use super::{NEVER, patient_limiter_by};
use crate::{Outcome, Quota, RateLimiter, RedisLimiter, conformance_tests::key};

const START: UnixMillis = UnixMillis(1_795_200_000_000);

/// Number of concurrent requests of each gateway.
const CALLERS: u64 = 16;

/// Sends three times the limit over all gateways concurrently. Returns the number of admitted requests for
/// each minute.
async fn admitted(gateways: &[Arc<RedisLimiter>], account: i64, per_minute: u64) -> HashMap<UnixMillis, u64> {
    let all = CALLERS * gateways.len() as u64;
    let quota = Quota { per_minute, per_day: 1 << 40 };
    let senders = (0..all).zip(gateways.iter().cycle()).map(|(index, gateway)| {
        let share = (3 * per_minute).div_ceil(all) + u64::from(index < 3 * per_minute % all);
        let (gateway, limit_key) = (Arc::clone(gateway), key(account, &(index % 5).to_string()));
        tokio::spawn(async move {
            let mut decisions = Vec::new();
            for _ in 0..share {
                decisions.push(gateway.take(&limit_key, quota, NEVER).await.expect("Redis is up"));
            }
            decisions
        })
    });
    let mut by_window = HashMap::new();
    for decisions in future::join_all(senders).await {
        for decision in decisions.expect("the sender ends in order") {
            let is_admitted = decision.outcome == Outcome::Admitted;
            *by_window.entry(decision.minute.resets_at).or_default() += u64::from(is_admitted);
        }
    }
    by_window
}

/// Returns the factor for the usual number of decisions: `PETSTORE_TEST_FACTOR=12` makes more than a million.
fn factor() -> u64 {
    std::env::var("PETSTORE_TEST_FACTOR").map_or(1, |factor| factor.parse().expect("a number"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn any_number_of_gateways_admits_exactly_the_limit_in_every_window() {
    let redis = RedisServer::start(RedisOptions::default()).await;
    let (clock, hand) = Clock::manual(START);
    for gateways in [1, 2, 4] {
        let limiters: Vec<_> =
            (0..gateways).map(|_| patient_limiter_by(&[redis.url()], clock.clone())).collect();
        for (account, limit, minutes) in [(1, 1, 10), (2, 2, 10), (3, 60, 20), (4, 5_000, 2 * factor())] {
            for _ in 0..minutes {
                let admitted = admitted(&limiters, 10 * gateways + account, limit).await;
                assert_eq!(admitted.into_values().collect::<Vec<_>>(), [limit], "{gateways} gateways");
                hand.advance(Duration::from_mins(1));
            }
        }
    }
}
