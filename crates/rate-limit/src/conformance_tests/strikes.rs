//! Tests of refused periods and strikes of keys.

use std::time::Duration;

use petstore_clock::UnixMillis;

use super::{AMPLE, LimiterUnderTest, NEVER, key};
use crate::{LimitKey, Outcome, Quota};

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

pub(super) async fn an_inspection_shows_all_state_of_a_key(tested: &LimiterUnderTest) {
    let limit_key = tested.new_key();
    let inspect = async || tested.limiter.inspect(&limit_key, SMALL, NEVER).await.expect("the limiter is up");
    let fresh = inspect().await;
    assert_eq!((fresh.decision.minute.remaining, fresh.decision.day.remaining), (1, 1_000));
    assert_eq!((fresh.refused_until, fresh.strikes), (None, None));

    tested.take(&limit_key, SMALL).await;
    let refused = tested.take(&limit_key, SMALL).await;
    tested.waits(Duration::from_secs(1));
    let struck = tested.take_many(3, &limit_key, SMALL).await;
    let kept = inspect().await;
    assert_eq!(kept.decision.minute, struck.minute);
    let retry_after = Duration::from_secs(refused.retry_after_secs().unwrap());
    assert_eq!(kept.refused_until, Some(refused.now.plus(retry_after)));
    assert_eq!(kept.strikes.map(|strikes| strikes.count), Some(3));
}

pub(super) async fn with_bans_switched_off_an_account_has_the_same_windows(tested: &LimiterUnderTest) {
    let (account, quota) = (tested.new_account(), Quota { per_minute: 2, per_day: 1_000 });
    let limit_key = LimitKey::Account(account);
    tested.take(&key(account, "key"), quota).await;
    assert_eq!(tested.take(&limit_key, quota).await.minute.remaining, 0);
    never_struck(tested, &limit_key, quota).await;
}

pub(super) async fn an_address_is_never_struck(tested: &LimiterUnderTest) {
    never_struck(tested, &tested.new_address(), SMALL).await;
}

async fn never_struck(tested: &LimiterUnderTest, limit_key: &LimitKey, quota: Quota) {
    tested.take_many(2, limit_key, quota).await;
    tested.waits(Duration::from_secs(2));
    let last = tested.take_many(500, limit_key, quota).await;
    assert_eq!((last.outcome, last.is_strike), (Outcome::RateLimited, false));
    assert_eq!(tested.limiter.inspect(limit_key, quota, UnixMillis(0)).await.unwrap().strikes, None);
}
