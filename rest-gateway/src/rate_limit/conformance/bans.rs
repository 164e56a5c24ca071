//! Refused periods, strikes and bans of keys.

use std::time::Duration;

use super::{AMPLE, Rig, key};
use crate::rate_limit::{BanPeriod, LimitKey, Outcome, Quota};

pub(super) async fn a_ban_is_the_keys_and_ends_by_itself(rig: &Rig) {
    let quota = Quota { per_minute: 1, per_day: 1_000 };
    let account = rig.new_account();
    let (offender, sibling) = (key(account, "offender"), key(account, "sibling"));
    rig.take_many(2, &offender, quota).await;
    rig.waits(Duration::from_secs(1));
    let banned = rig.take_many(101, &offender, quota).await;
    assert_eq!(banned.outcome, Outcome::Banned);
    assert_eq!(rig.peek(&offender, AMPLE).await.outcome, Outcome::Banned);
    assert_eq!(rig.take(&sibling, AMPLE).await.outcome, Outcome::Admitted);
    rig.waits(Duration::from_secs(banned.retry_after_secs().unwrap()));
    assert_eq!(rig.take(&offender, AMPLE).await.outcome, Outcome::Admitted);
}

pub(super) async fn an_operator_bans_a_key_and_lifts_its_ban(rig: &Rig) {
    let account = rig.new_account();
    let (banned, sibling) = (key(account, "banned"), key(account, "sibling"));
    let ban = rig.ban_from_now(&banned, Duration::from_hours(1)).await;
    let decision = rig.take(&banned, AMPLE).await;
    assert_eq!((decision.outcome, decision.ban), (Outcome::Banned, Some(ban)));
    assert_eq!(rig.inspect(&banned).await.ban(), Some(ban));
    assert_eq!(rig.take(&sibling, AMPLE).await.minute.remaining, 999);
    rig.set_ban(&banned, None).await;
    assert_eq!(rig.take(&banned, AMPLE).await.minute.remaining, 998);

    rig.ban_from_now(&banned, Duration::from_secs(2)).await;
    rig.waits(Duration::from_secs(3));
    assert_eq!(rig.take(&banned, AMPLE).await.outcome, Outcome::Admitted);
    for other in [LimitKey::Account(account), LimitKey::Usage(account), rig.new_address()] {
        rig.set_ban(&other, Some(ban)).await;
        assert_eq!(rig.take(&other, AMPLE).await.outcome, Outcome::Admitted, "{other:?}");
    }
}

pub(super) async fn a_lifted_ban_is_forgotten_and_an_imposed_one_is_not(rig: &Rig) {
    let quota = Quota { per_minute: 1, per_day: 1_000 };
    for (lift, secs) in [(true, 300), (false, 600)] {
        let limit_key = rig.new_key();
        rig.ban_from_now(&limit_key, Duration::from_mins(5)).await;
        if lift {
            rig.set_ban(&limit_key, None).await;
        } else {
            rig.waits(Duration::from_mins(5));
        }
        rig.take_many(2, &limit_key, quota).await;
        rig.waits(Duration::from_secs(1));
        let ban = rig.take_many(101, &limit_key, quota).await;
        assert_eq!(ban.banned_until(), Some(ban.now.plus(Duration::from_secs(secs))), "lifted: {lift}");
    }
}

pub(super) async fn a_ban_that_is_newer_than_what_is_known_stays(rig: &Rig) {
    let limit_key = rig.new_key();
    let ban = rig.ban_from_now(&limit_key, Duration::from_mins(5)).await;
    let before = ban.from.minus(Duration::from_millis(1));
    let older = BanPeriod { from: before, until: ban.until.plus(Duration::from_hours(1)) };
    for known in [Some(older), None] {
        rig.set_ban_upto(&limit_key, known, before).await;
        assert_eq!(rig.take(&limit_key, AMPLE).await.ban, Some(ban), "{known:?}");
    }
    rig.set_ban_upto(&limit_key, Some(older), ban.from).await;
    assert_eq!(rig.take(&limit_key, AMPLE).await.ban, Some(older), "what is known to be replaced is");
    rig.set_ban_upto(&limit_key, None, older.from).await;
    assert_eq!(rig.take(&limit_key, AMPLE).await.outcome, Outcome::Admitted);
}

pub(super) async fn a_ban_by_a_clock_that_is_ahead_holds_at_once(rig: &Rig) {
    let limit_key = rig.new_key();
    let now = rig.inspect(&limit_key).await.decision.now;
    let ban = BanPeriod { from: now.plus(Duration::from_hours(1)), until: now.plus(Duration::from_hours(2)) };
    rig.set_ban_upto(&limit_key, Some(ban), ban.from).await;
    let banned = rig.take(&limit_key, AMPLE).await;
    assert_eq!(banned.banned_until(), Some(ban.until));
    assert!(banned.ban.is_some_and(|ban| (now..=banned.now).contains(&ban.from)), "{banned:?}");
    rig.waits(Duration::from_secs(1));
    rig.set_ban_upto(&limit_key, Some(ban), ban.from).await;
    assert_eq!(rig.take(&limit_key, AMPLE).await.ban, banned.ban, "it is set already");
}

pub(super) async fn all_that_is_kept_of_a_key_can_be_seen(rig: &Rig) {
    let (limit_key, quota) = (rig.new_key(), Quota { per_minute: 1, per_day: 1_000 });
    let fresh = rig.limiter.inspect(&limit_key, quota).await.expect("the limiter under test is up");
    assert_eq!((fresh.decision.minute.remaining, fresh.decision.day.remaining), (1, 1_000));
    assert_eq!((fresh.refused_until, fresh.strikes, fresh.last_ban), (None, None, None));

    rig.take(&limit_key, quota).await;
    let refused = rig.take(&limit_key, quota).await;
    rig.waits(Duration::from_secs(1));
    let struck = rig.take_many(3, &limit_key, quota).await;
    let limit_status = rig.limiter.inspect(&limit_key, quota).await.expect("the limiter under test is up");
    assert_eq!(limit_status.decision.minute, struck.minute);
    let retry_after = Duration::from_secs(refused.retry_after_secs().unwrap());
    assert_eq!(limit_status.refused_until, Some(refused.now.plus(retry_after)));
    assert_eq!(limit_status.strikes.map(|strikes| strikes.count), Some(3));
    assert_eq!(limit_status.ban(), None);
    // Setting what is set already changes nothing.
    rig.set_ban(&limit_key, None).await;
    assert_eq!(rig.inspect(&limit_key).await.strikes, limit_status.strikes);

    let banned = rig.take_many(98, &limit_key, quota).await;
    let limit_status = rig.inspect(&limit_key).await;
    assert_eq!(
        limit_status.ban(),
        Some(BanPeriod { from: banned.now, until: banned.banned_until().unwrap() })
    );
    assert_eq!((limit_status.refused_until, limit_status.strikes), (None, None));
}

pub(super) async fn with_bans_switched_off_an_account_has_the_same_windows(rig: &Rig) {
    let (account, quota) = (rig.new_account(), Quota { per_minute: 2, per_day: 1_000 });
    let limit_key = LimitKey::Account(account);
    rig.take(&key(account, "key"), quota).await;
    assert_eq!(rig.take(&limit_key, quota).await.minute.remaining, 0);
    rig.take(&limit_key, quota).await;
    rig.waits(Duration::from_secs(2));
    assert_eq!(rig.take_many(500, &limit_key, quota).await.outcome, Outcome::RateLimited);
    assert_eq!(rig.inspect(&limit_key).await.strikes, None);
}

pub(super) async fn an_address_is_never_banned(rig: &Rig) {
    let (limit_key, quota) = (rig.new_address(), Quota { per_minute: 1, per_day: 1_000 });
    rig.take_many(2, &limit_key, quota).await;
    rig.waits(Duration::from_secs(2));
    assert_eq!(rig.take_many(500, &limit_key, quota).await.outcome, Outcome::RateLimited);
}
