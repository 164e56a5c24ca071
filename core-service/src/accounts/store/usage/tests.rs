use std::time::Duration;

use super::*;
use crate::accounts::{
    KeyId, Refusal, RefusalCause,
    store::test_support::{new_accounts, open},
};

const NOW: UnixMillis = UnixMillis(1_800_000_000_000);
const ACCOUNT: AccountId = AccountId(7);

fn today() -> Day {
    Day::containing(NOW)
}

/// Returns requests that count only for their day.
fn row(account: AccountId, day: Day, succeeded: i64) -> (AccountId, UsageMinute) {
    (
        account,
        UsageMinute {
            minute: Minute::containing(day.start()),
            key_id: None,
            counts: RequestCounts { succeeded, get_pet: 1, ..RequestCounts::default() },
        },
    )
}

fn days(rows: &[(AccountId, UsageMinute)]) -> UsageReport {
    UsageReport { requests: rows.to_vec(), ..UsageReport::default() }
}

async fn count(accounts: &Accounts, table: &str) -> i64 {
    let query = Query::select().from(table.to_owned()).expr_as(Expr::val(1).count(), "rows").take();
    accounts.database.rows(query).await.unwrap()[0].try_get("", "rows").unwrap()
}

/// Returns the account's requests that were answered with 2xx, by day.
async fn succeeded(accounts: &Accounts) -> Vec<(Day, i64)> {
    let usage = accounts.usage_by_day(Some(ACCOUNT), Day(0), "").await.unwrap();
    usage.0.into_iter().map(|(day, counts)| (day, counts.succeeded)).collect()
}

#[tokio::test]
async fn reports_add_up_by_account_and_day() {
    let (accounts, _folder) = new_accounts().await;
    let rows = [row(ACCOUNT, today(), 5), row(ACCOUNT, today().minus(1), 2), row(AccountId(8), today(), 100)];
    accounts.record_usage("one", 1, days(&rows), NOW).await.unwrap();
    accounts.record_usage("other", 1, days(&[row(ACCOUNT, today(), 3)]), NOW).await.unwrap();
    assert_eq!(succeeded(&accounts).await, [(today().minus(1), 2), (today(), 8)]);
    let usage = accounts.usage_by_day(Some(ACCOUNT), today(), "one").await.unwrap();
    assert_eq!(
        usage,
        (vec![(today(), RequestCounts { succeeded: 8, get_pet: 2, ..RequestCounts::default() })], 1)
    );
}

#[tokio::test]
async fn a_repeated_report_is_not_counted_twice() {
    let (accounts, home) = new_accounts().await;
    let other_core = open(&home).await;
    let row = [row(ACCOUNT, today(), 5)];
    let (first, second) = tokio::join!(
        accounts.record_usage("gateway", 1, days(&row), NOW),
        other_core.record_usage("gateway", 1, days(&row), NOW)
    );
    first.unwrap();
    second.unwrap();
    accounts.record_usage("gateway", 2, days(&row), NOW).await.unwrap();
    accounts.record_usage("gateway", 1, days(&row), NOW).await.unwrap();
    assert_eq!(succeeded(&accounts).await, [(today(), 10)]);
}

#[tokio::test]
async fn days_are_deleted_after_ninety_days_in_bounded_batches() {
    let (accounts, _folder) = new_accounts().await;
    let surplus = 10;
    for batch in 0..2 {
        let ids = (0..=500 + surplus).map(|n| AccountId(batch * 10_000 + n));
        let rows: Vec<_> = ids.map(|account| row(account, today().minus(90), 1)).collect();
        accounts
            .record_usage("gateway", batch + 1, days(&rows), NOW.minus(Duration::from_hours(90 * 24)))
            .await
            .unwrap();
    }
    accounts.record_usage("gateway", 3, days(&[row(ACCOUNT, today().minus(89), 4)]), NOW).await.unwrap();
    let left = count(&accounts, "usage_days").await;
    assert_eq!(left, 1 + 2 * (surplus + 1), "one report forgets a bounded number");
    accounts.record_usage("gateway", 4, days(&[]), NOW).await.unwrap();
    assert_eq!(succeeded(&accounts).await, [(today().minus(89), 4)]);
}

#[tokio::test]
async fn a_finished_run_is_forgotten() {
    let (accounts, _folder) = new_accounts().await;
    accounts.record_usage("old", 1, days(&[]), NOW).await.unwrap();
    let later = NOW.plus(retention::REPORTS).plus(Duration::from_millis(1));
    accounts.record_usage("new", 1, days(&[]), later).await.unwrap();
    assert_eq!(count(&accounts, "usage_reporters").await, 1);
    let first_of_old = accounts.record_usage("old", 1, days(&[row(ACCOUNT, today(), 1)]), later).await;
    first_of_old.unwrap();
    assert_eq!(succeeded(&accounts).await, [(today(), 1)], "its numbers are forgotten");
}

fn now() -> Minute {
    Minute::containing(NOW)
}

fn key(number: u8) -> KeyId {
    format!("018f0000-0000-7000-8000-0000000000{number:02}").parse().unwrap()
}

fn minute_row(account: AccountId, number: u8, minute: Minute, succeeded: i64) -> (AccountId, UsageMinute) {
    (
        account,
        UsageMinute {
            minute,
            key_id: Some(key(number)),
            counts: RequestCounts { succeeded, refused: 1, ..RequestCounts::default() },
        },
    )
}

async fn report(accounts: &Accounts, number: i64, minutes: Vec<(AccountId, UsageMinute)>) {
    let report = UsageReport { requests: minutes, ..UsageReport::default() };
    accounts.record_usage("gateway", number, report, NOW).await.unwrap();
}

/// Returns minute, key and requests with 2xx.
async fn usage_of(accounts: &Accounts, of: MinutesOf, since: Minute) -> Vec<(i64, Option<KeyId>, i64)> {
    let minutes = accounts.usage_by_minute(of, since, 1_440).await.unwrap();
    minutes.iter().map(|it| (now().0 - it.minute.0, it.key_id, it.counts.succeeded)).collect()
}

#[tokio::test]
async fn minutes_add_up_by_key_by_account_and_in_total() {
    let (accounts, _home) = new_accounts().await;
    let rows = vec![
        minute_row(ACCOUNT, 1, now(), 5),
        minute_row(ACCOUNT, 2, now(), 3),
        minute_row(ACCOUNT, 1, now().minus(2), 1),
        minute_row(AccountId(8), 3, now(), 100),
    ];
    report(&accounts, 1, rows.clone()).await;
    report(&accounts, 1, rows).await; // sent again
    report(&accounts, 2, vec![minute_row(ACCOUNT, 1, now(), 10)]).await;
    let since = now().minus(59);
    let of = |account, key_id, by_key| MinutesOf { account, key_id, by_key };
    assert_eq!(usage_of(&accounts, MinutesOf::default(), since).await, [(2, None, 1), (0, None, 118)]);
    assert_eq!(
        usage_of(&accounts, of(Some(ACCOUNT), None, false), since).await,
        [(2, None, 1), (0, None, 18)]
    );
    let one = Some(key(1));
    assert_eq!(usage_of(&accounts, of(Some(ACCOUNT), one, false), since).await, [(2, one, 1), (0, one, 15)]);
    let by_key = of(Some(ACCOUNT), None, true);
    assert_eq!(usage_of(&accounts, by_key, since).await, [(2, one, 1), (0, one, 15), (0, Some(key(2)), 3)]);
    assert_eq!(usage_of(&accounts, by_key, now().minus(1)).await.len(), 2);
    let last = accounts.usage_by_minute(by_key, since, 1).await.unwrap();
    assert_eq!(last[0].key_id, Some(key(2)), "the last ones");
}

#[tokio::test]
async fn requests_without_an_account_are_in_the_sums_of_all_and_in_no_accounts_usage() {
    let (accounts, _home) = new_accounts().await;
    let of_none = |minute, server_errors| {
        (
            NO_ACCOUNT,
            UsageMinute {
                minute,
                key_id: None,
                counts: RequestCounts { server_errors, ..RequestCounts::default() },
            },
        )
    };
    let requests = vec![of_none(now().minus(1), 7), of_none(now(), 40), minute_row(ACCOUNT, 1, now(), 5)];
    report(&accounts, 1, requests).await;
    report(&accounts, 2, vec![of_none(now(), 2)]).await;
    let minutes = accounts.usage_by_minute(MinutesOf::default(), now().minus(59), 1_440).await.unwrap();
    let failed: Vec<_> = minutes.iter().map(|it| it.counts.server_errors).collect();
    assert_eq!(failed, [7, 42]);
    let days = accounts.usage_by_day(None, today(), "").await.unwrap().0;
    assert_eq!(days.iter().map(|(_, counts)| counts.server_errors).sum::<i64>(), 49);
    let own = MinutesOf { account: Some(ACCOUNT), ..MinutesOf::default() };
    assert_eq!(usage_of(&accounts, own, now().minus(59)).await, [(0, None, 5)]);
    assert_eq!(succeeded(&accounts).await, [(today(), 5)]);
    assert_eq!(accounts.forget_old_minutes(NOW.plus(Duration::from_hours(25))).await.unwrap(), 1);
}

#[tokio::test]
async fn a_failed_report_is_stored_not_at_all() {
    let (accounts, _home) = new_accounts().await;
    accounts.database.writer().execute_unprepared("DROP TABLE refusals").await.unwrap();
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
    let minutes = vec![minute_row(ACCOUNT, 1, now(), 5)];
    let report = UsageReport { requests: minutes, refusals: vec![refusal], ..UsageReport::default() };
    accounts.record_usage("gateway", 1, report, NOW).await.unwrap_err();
    assert_eq!(
        usage_of(&accounts, MinutesOf::default(), Minute(0)).await,
        [],
        "or it would be counted twice"
    );
}

#[tokio::test]
async fn minutes_are_stored_for_a_day() {
    let (accounts, _home) = new_accounts().await;
    let old = now().minus(retention::USAGE_MINUTES + 1);
    let minutes = vec![
        minute_row(ACCOUNT, 1, old, 1),
        minute_row(AccountId(8), 2, old, 1),
        minute_row(ACCOUNT, 1, now().minus(retention::USAGE_MINUTES), 1),
    ];
    let refusal_counts = vec![
        RefusalCount { minute: old, cause: RefusalCause::InvalidKey, requests: 1 },
        RefusalCount { minute: now(), cause: RefusalCause::MissingKey, requests: 1 },
    ];
    let report = UsageReport { requests: minutes, refusal_counts, ..UsageReport::default() };
    accounts.record_usage("gateway", 1, report, NOW).await.unwrap();
    assert_eq!(accounts.forget_old_minutes(NOW).await.unwrap(), 2 + 1);
    assert_eq!(accounts.forget_old_minutes(NOW).await.unwrap(), 0);
    assert_eq!(usage_of(&accounts, MinutesOf::default(), Minute(0)).await, [(1_440, None, 1)]);
    assert_eq!(count(&accounts, "refusal_counts").await, 1, "those of today");
}
