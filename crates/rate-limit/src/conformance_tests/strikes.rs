//! Tests of refused periods and strikes of keys.

use std::time::Duration;

use super::{AMPLE, LimiterUnderTest, key};
use crate::{Outcome, Quota};

/// Quota of one request a minute, so that the next request is refused.
const SMALL: Quota = Quota { per_minute: 1, per_day: 1_000 };

pub(super) async fn too_many_strikes_are_reported_for_the_key_with_their_time(tested: &LimiterUnderTest) {
    let account = tested.new_account();
    let (offender, sibling) = (key(account, "offender"), key(account, "sibling"));
    tested.take_many(2, &offender, SMALL).await;
    tested.waits(Duration::from_secs(1));
    let last = tested.take_many(100, &offender, SMALL).await;
    assert_eq!((last.outcome, last.is_strike, last.struck_out_at), (Outcome::RateLimited, true, None));
    let one_too_many = tested.take(&offender, SMALL).await;
    assert_eq!(one_too_many.struck_out_at, Some(one_too_many.now));
    tested.waits(Duration::from_secs(5));
    let later = tested.take_many(3, &offender, SMALL).await;
    assert_eq!((later.is_strike, later.struck_out_at), (true, one_too_many.struck_out_at));
    assert_eq!(tested.take(&sibling, SMALL).await.struck_out_at, None);
    assert_eq!(tested.take(&offender, AMPLE).await.struck_out_at, None, "an admitted request is no strike");
}

pub(super) async fn settled_refusals_are_no_strikes(tested: &LimiterUnderTest) {
    let limit_key = tested.new_key();
    tested.take_many(2, &limit_key, SMALL).await;
    tested.waits(Duration::from_secs(1));
    let struck_out = tested.take_many(101, &limit_key, SMALL).await;
    let settled_at = struck_out.now.plus(Duration::from_millis(1));
    assert_eq!(struck_out.struck_out_at, Some(struck_out.now));
    tested.waits(Duration::from_secs(2));
    let refused = tested.take_settled(&limit_key, SMALL, settled_at).await;
    assert_eq!((refused.outcome, refused.is_strike), (Outcome::RateLimited, false), "a new refused period");
    tested.waits(Duration::from_secs(1));
    let struck = tested.take_settled(&limit_key, SMALL, settled_at).await;
    assert_eq!((struck.is_strike, struck.struck_out_at), (true, None));
    assert_eq!(tested.inspect(&limit_key).await.strikes.map(|strikes| strikes.count), Some(1));
    let later = struck.now.plus(Duration::from_millis(1));
    let settled = tested.limiter.inspect(&limit_key, SMALL, later).await.expect("the limiter is up");
    assert_eq!((settled.refused_until, settled.strikes), (None, None));
}
