//! Reports to the core: the last uses of keys, and bans.

use super::*;

#[tokio::test]
async fn uses_are_reported_once_per_key_with_the_last_time() {
    let tested = ResolverUnderTest::new();
    let key = tested.new_key(1);
    tested.resolve(&key).await.unwrap();
    tested.waits(40); // a second entry of the same key
    tested.resolve(&key).await.unwrap();
    tested.resolve(&key).await.unwrap();
    tested.resolver.0.report_uses().await;
    tested.resolver.0.report_uses().await;
    let reports = tested.core.state().reports.clone();
    let [report] = reports.as_slice() else { panic!("one report was due: {reports:?}") };
    let [used] = report.as_slice() else { panic!("one key was used: {report:?}") };
    assert_eq!(u64::try_from(used.last_used_at_ms), Ok(START.0 + 40_000));
}

#[tokio::test]
async fn of_two_entries_of_a_key_the_latest_use_is_reported() {
    let tested = ResolverUnderTest::new();
    let key = tested.new_key(1);
    let former = tested.look_up(&key).await.unwrap();
    tested.waits(40);
    let latter = tested.look_up(&key).await.unwrap();
    tested.resolver.0.last_used.note(&latter, UnixMillis(9));
    tested.resolver.0.last_used.note(&former, UnixMillis(5));
    let uses = tested.resolver.0.last_used.take();
    assert_eq!(uses.iter().map(|used| used.last_used_at_ms).collect::<Vec<_>>(), [9]);
}

#[tokio::test]
async fn a_report_has_at_most_a_thousand_keys() {
    let tested = ResolverUnderTest::new();
    for account in 0..1_001 {
        tested.resolve(&tested.new_key(account)).await.unwrap();
    }
    tested.resolver.0.report_uses().await;
    let sizes: Vec<_> = tested.core.state().reports.iter().map(Vec::len).collect();
    assert_eq!(sizes, [1_000, 1]);
}

#[tokio::test]
async fn a_refused_report_of_uses_does_not_drop_those_after_it() {
    let tested = ResolverUnderTest::new();
    tested.core.state().refused.insert("0".into());
    let key_use = |number: u32| KeyUse { key_id: number.to_string(), last_used_at_ms: 1 };
    let uses: Vec<_> = (0..2_001).map(key_use).collect();
    tested.resolver.0.core.report(&uses).await;
    let sizes: Vec<_> = tested.core.state().reports.iter().map(Vec::len).collect();
    assert_eq!(sizes, [1_000, 1]);
}

#[tokio::test]
async fn a_ban_whose_report_is_refused_holds_and_is_not_reported_again() {
    let tested = ResolverUnderTest::new();
    for account in 1..=2 {
        tested.resolve(&tested.new_key(account)).await.unwrap();
    }
    tested.core.state().refused.insert("key-1".into());
    let known = ["key-1", "key-2"].map(|id| {
        let quota = Quota { per_minute: 60, per_day: 1_000 };
        KnownKey::new(id.into(), 1, petstore_proto::internal::v1::Plan::Free, quota)
    });
    for key in &known {
        assert!(tested.resolver.ban(key, START));
    }
    for _ in 0..2 {
        assert_eq!(tested.resolver.0.report_bans().await, Ok(()));
        assert!(tested.resolver.last_ban(&known[0]).is_some());
    }
    let mut reported = tested.core.state().ban_reports.clone();
    reported.sort();
    assert_eq!(reported, ["key-1", "key-2"]);
}

#[tokio::test]
async fn the_answer_to_a_report_acts_before_the_feed() {
    let tested = ResolverUnderTest::new();
    let key = tested.new_key(1);
    let known = tested.resolve(&key).await.unwrap();
    assert_eq!(tested.resolver.last_ban(&known), None);
    assert!(tested.resolver.ban(&known, START));
    let imposed = BanPeriod { from: START, until: START.plus(Duration::from_mins(5)) };
    let is_banned = |known: &KnownKey| {
        let last_ban = tested.resolver.last_ban(known);
        last_ban.and_then(|last_ban| last_ban.in_force(START).map(|(period, _)| period))
    };
    assert_eq!(is_banned(&known), Some(imposed), "before it is reported");
    tested.resolver.0.report_bans().await.unwrap();
    let known = tested.resolve(&key).await.unwrap();
    assert_eq!((is_banned(&known), tested.core.resolved()), (Some(imposed), 2), "it was looked up again");

    tested.core.set(&key, 1, |key| (key.last_ban, key.bans_lifted_at_ms) = (None, Some(i64::MAX)));
    tested.poll_changes().await;
    let known = tested.resolve(&key).await.unwrap();
    assert_eq!(is_banned(&known), None);
    assert!(!tested.resolver.ban(&known, START.plus(Duration::from_hours(1))), "it is settled");
}
