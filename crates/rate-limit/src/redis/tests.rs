//! Tests against real servers.

mod conformance;
mod exact;
mod faults;
mod kept;
mod property_tests;

use std::{sync::Arc, time::Duration};

use petstore_clock::{Clock, ManualClock, UnixMillis};

use crate::{Quota, RedisDeadlines, RedisLimiter, RedisSettings};

/// Quota that is enough for every window, so that none is used up by accident.
const AMPLE: Quota = Quota { per_minute: 1_000, per_day: 10_000 };

/// Time of a settlement that never happened.
const NEVER: UnixMillis = UnixMillis(0);

const INSTALLATION: &str = "live-test";

/// Timeout that a busy machine does not exceed.
const PATIENT_TIMEOUT: Duration = Duration::from_secs(10);

fn settings<'a>(urls: impl IntoIterator<Item = &'a String>) -> RedisSettings {
    RedisSettings {
        urls: urls.into_iter().map(|url| url.parse().expect("a URL of Redis")).collect(),
        key_prefix: "pet:",
        deadlines: RedisDeadlines::default(),
        clock: None,
    }
}

/// Returns a limiter with a clock that the test moves.
fn patient_limiter(urls: &[String]) -> (Arc<RedisLimiter>, ManualClock) {
    let (clock, hand) = Clock::manual(UnixMillis(1_795_200_000_000));
    (patient_limiter_by(urls, clock), hand)
}

fn patient_limiter_by(urls: &[String], clock: Clock) -> Arc<RedisLimiter> {
    let deadlines = RedisDeadlines::all(PATIENT_TIMEOUT);
    let settings = RedisSettings { deadlines, clock: Some(clock), ..settings(urls) };
    Arc::new(named(RedisLimiter::new(settings).expect("usable settings")))
}

/// Sets the installation of a limiter and returns it.
fn named(limiter: RedisLimiter) -> RedisLimiter {
    limiter.set_installation(INSTALLATION);
    limiter
}
