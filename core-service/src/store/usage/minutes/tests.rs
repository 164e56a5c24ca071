use super::*;
use crate::{
    domain::{Refusal, Tally, UsageReport},
    store::{Store, test_support::new_store},
};

const NOW: UnixMillis = UnixMillis(1_800_000_000_000);
const ACCOUNT: AccountId = AccountId(7);

fn now() -> Minute {
    Minute::containing(NOW)
}

fn key(number: u8) -> KeyId {
    format!("018f0000-0000-7000-8000-0000000000{number:02}").parse().unwrap()
}

fn row(account: AccountId, number: u8, minute: Minute, succeeded: i64) -> (AccountId, UsageMinute) {
    let tally = Tally { succeeded, refused: 1, ..Tally::default() };
    (account, UsageMinute { minute, key_id: Some(key(number)), tally })
}

async fn report(store: &Store, number: i64, minutes: Vec<(AccountId, UsageMinute)>) {
    let report = UsageReport { minutes, ..UsageReport::default() };
    store.usage().record("gateway", number, report, NOW).await.unwrap();
}

/// Minute, key and requests with 2xx.
async fn told(store: &Store, of: MinutesOf, since: Minute) -> Vec<(i64, Option<KeyId>, i64)> {
    let minutes = store.usage().by_minute(of, since, 1_440).await.unwrap();
    minutes.into_iter().map(|it| (now().0 - it.minute.0, it.key_id, it.tally.succeeded)).collect()
}

#[tokio::test]
async fn minutes_add_up_by_key_and_are_told_of_one_key_of_an_account_and_of_all() {
    let (store, _home) = new_store().await;
    let rows = vec![
        row(ACCOUNT, 1, now(), 5),
        row(ACCOUNT, 2, now(), 3),
        row(ACCOUNT, 1, now().minus(2), 1),
        row(AccountId(8), 3, now(), 100),
    ];
    report(&store, 1, rows.clone()).await;
    report(&store, 1, rows).await; // sent again
    report(&store, 2, vec![row(ACCOUNT, 1, now(), 10)]).await;
    let since = now().minus(59);
    let of = |account, key_id, by_key| MinutesOf { account, key_id, by_key };
    assert_eq!(told(&store, MinutesOf::default(), since).await, [(2, None, 1), (0, None, 118)]);
    assert_eq!(told(&store, of(Some(ACCOUNT), None, false), since).await, [(2, None, 1), (0, None, 18)]);
    let one = Some(key(1));
    assert_eq!(told(&store, of(Some(ACCOUNT), one, false), since).await, [(2, one, 1), (0, one, 15)]);
    let by_key = of(Some(ACCOUNT), None, true);
    assert_eq!(told(&store, by_key, since).await, [(2, one, 1), (0, one, 15), (0, Some(key(2)), 3)]);
    assert_eq!(told(&store, by_key, now().minus(1)).await.len(), 2);
    let last = store.usage().by_minute(by_key, since, 1).await.unwrap();
    assert_eq!(last[0].key_id, Some(key(2)), "the last ones");
}

#[tokio::test]
async fn what_is_lost_with_a_failed_report_is_all_of_it() {
    let (store, _home) = new_store().await;
    store.execute_unchecked("DROP TABLE refusals").await.unwrap();
    let refusal = Refusal {
        request_id: "request-1".to_owned(),
        at: NOW,
        cause: RefusalCause::InvalidKey,
        account: None,
        key_id: None,
        limit: None,
        since: None,
        until: None,
        repeats: 0,
    };
    let minutes = vec![row(ACCOUNT, 1, now(), 5)];
    let report = UsageReport { minutes, refusals: vec![refusal], ..UsageReport::default() };
    store.usage().record("gateway", 1, report, NOW).await.unwrap_err();
    assert_eq!(told(&store, MinutesOf::default(), Minute(0)).await, [], "or it would be counted twice");
}

#[tokio::test]
async fn refusals_are_counted_by_cause() {
    let (store, _home) = new_store().await;
    let count = |minute, cause, requests| RefusalCount { minute, cause, requests };
    let counts = vec![
        count(now(), RefusalCause::MinuteLimit, 4),
        count(now().minus(1), RefusalCause::MinuteLimit, 2),
        count(now(), RefusalCause::InvalidKey, 9),
        count(now().minus(60), RefusalCause::KeyRevoked, 1),
    ];
    for number in 1..=2 {
        let report = UsageReport { refusal_counts: counts.clone(), ..UsageReport::default() };
        store.usage().record("gateway", number, report, NOW).await.unwrap();
    }
    let told = store.usage().refusals_by_cause(now().minus(59)).await.unwrap();
    assert_eq!(told, [(RefusalCause::InvalidKey, 18), (RefusalCause::MinuteLimit, 12)]);
}

#[tokio::test]
async fn minutes_are_kept_for_a_day() {
    let (store, _home) = new_store().await;
    let old = now().minus(Minute::KEPT + 1);
    let minutes = vec![
        row(ACCOUNT, 1, old, 1),
        row(AccountId(8), 2, old, 1),
        row(ACCOUNT, 1, now().minus(Minute::KEPT), 1),
    ];
    let refusal_counts = vec![
        RefusalCount { minute: old, cause: RefusalCause::InvalidKey, requests: 1 },
        RefusalCount { minute: now(), cause: RefusalCause::MissingKey, requests: 1 },
    ];
    let report = UsageReport { minutes, refusal_counts, ..UsageReport::default() };
    store.usage().record("gateway", 1, report, NOW).await.unwrap();
    assert_eq!(store.usage().forget_old_minutes(NOW).await.unwrap(), 2);
    assert_eq!(store.usage().forget_old_minutes(NOW).await.unwrap(), 0);
    assert_eq!(told(&store, MinutesOf::default(), Minute(0)).await, [(1_440, None, 1)]);
    let counts = store.usage().refusals_by_cause(Minute(0)).await.unwrap();
    assert_eq!(counts, [(RefusalCause::MissingKey, 1)]);
}
