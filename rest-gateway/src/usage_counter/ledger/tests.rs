use petstore_proto::internal::v1::{Plan, Refusal};
use petstore_rate_limit::Quota;

use super::*;

const DAY: i64 = 20_777;
const MINUTE: i64 = DAY * Minute::PER_DAY + 5;

fn ledger() -> Ledger {
    Ledger::new("run".to_owned())
}

fn key(account_id: i64, key_id: &str) -> Arc<KnownKey> {
    let quota = Quota { per_minute: 60, per_day: 1_000 };
    Arc::new(KnownKey::new(key_id.into(), account_id, Plan::Free, quota))
}

fn total(report: &ReportUsageRequest) -> i64 {
    report.requests.iter().map(|row| row.succeeded).sum()
}

#[test]
fn answers_are_counted_by_status_class_and_operation() {
    let (ledger, key) = (ledger(), key(7, "k"));
    for status in [200, 201, 204, 400, 404, 410, 429, 429, 500, 503] {
        ledger.count(&key, MINUTE, status, status == 404);
    }
    let day = UsageDay { day: DAY, succeeded: 3, client_errors: 3, refused: 2, server_errors: 2, get_pet: 1 };
    let report = ledger.next_report().unwrap();
    assert_eq!((report.reporter.as_str(), report.number), ("run", 1));
    assert_eq!(report.requests, [row(((7, "k".into(), MINUTE), day))]);
    assert_eq!(ledger.unreported(7).sent, [day]);
}

#[test]
fn minutes_are_counted_by_key_even_when_it_is_resolved_again() {
    let ledger = ledger();
    let (first, second, again) = (key(7, "first"), key(7, "second"), key(7, "first"));
    for key in [&first, &second, &again] {
        ledger.count(key, MINUTE, 200, false);
    }
    ledger.count(&first, MINUTE + 1, 200, false);
    let report = ledger.next_report().unwrap();
    let mut days: Vec<_> =
        report.requests.iter().map(|row| (row.key_id.as_str(), row.minute - MINUTE, row.succeeded)).collect();
    days.sort_unstable();
    assert_eq!((days, total(&report)), (vec![("first", 0, 2), ("first", 1, 1), ("second", 0, 1)], 4));
}

#[test]
fn each_minute_of_requests_without_an_account_has_a_row_of_no_account() {
    let (ledger, key) = (ledger(), key(7, "k"));
    for (minute, status) in
        [(MINUTE, 401), (MINUTE, 503), (MINUTE, 503), (MINUTE + 1, 429), (MINUTE + 2, 503)]
    {
        ledger.count_without_account(minute, status);
    }
    ledger.count(&key, MINUTE, 200, false);
    assert_eq!(ledger.unreported(7).waiting.len(), 1, "they are in no account's usage");
    let mut rows: Vec<_> = ledger.next_report().unwrap().requests;
    rows.sort_unstable_by_key(|row| (row.account_id, row.minute));
    let of_none = |minute, client_errors, refused, server_errors| UsageRow {
        minute,
        client_errors,
        refused,
        server_errors,
        ..UsageRow::default()
    };
    let expected = [of_none(MINUTE, 1, 0, 2), of_none(MINUTE + 1, 0, 1, 0), of_none(MINUTE + 2, 0, 0, 1)];
    assert_eq!(rows[..3], expected);
    assert_eq!((rows.len(), rows[3].account_id), (4, 7));
}

#[test]
fn minutes_without_an_account_are_bounded_and_reported_oldest_first() {
    let ledger = ledger();
    for minute in 0..10_000 {
        ledger.count_without_account(MINUTE + minute, 503);
    }
    let mut minutes = Vec::new();
    while let Some(report) = ledger.next_report() {
        assert!(report.requests.len() <= MAX_ROWS);
        minutes.extend(report.requests.iter().map(|row| row.minute - MINUTE));
        ledger.answered(report.number);
    }
    minutes.sort_unstable();
    assert!(minutes.into_iter().eq(0..2_880), "two days");
}

#[test]
fn a_report_is_repeated_unchanged_until_it_is_answered() {
    let (ledger, key) = (ledger(), key(7, "k"));
    assert_eq!(ledger.next_report(), None);
    ledger.count(&key, MINUTE, 200, false);
    let first = ledger.next_report().unwrap();
    ledger.count(&key, MINUTE, 200, false);
    let address = std::net::IpAddr::from([127, 0, 0, 1]).into();
    ledger.refusals.note(MINUTE, Refusal::default(), address);
    assert_eq!(ledger.next_report().unwrap(), first);
    ledger.answered(first.number);
    ledger.answered(first.number);
    let second = ledger.next_report().unwrap();
    assert_eq!((second.number, total(&second), second.refusals.len()), (2, 1, 1));
    ledger.answered(first.number); // late, and about another report
    assert_eq!(ledger.next_report().unwrap(), second);
    ledger.answered(second.number);
    assert_eq!(ledger.next_report(), None);
}

#[test]
fn concurrent_counts_and_reports_lose_and_duplicate_nothing() {
    let ledger = ledger();
    let keys: Vec<_> = (0..3_000).map(|account| key(account, &format!("key {account}"))).collect();
    let mut reported = 0;
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                keys.iter().cycle().take(10_000).for_each(|key| ledger.count(key, MINUTE, 200, false));
            });
        }
        while reported < 40_000 {
            if let Some(report) = ledger.next_report() {
                assert!(report.requests.len() <= MAX_ROWS);
                reported += total(&report);
                ledger.answered(report.number);
            }
        }
    });
    assert_eq!((reported, ledger.next_report()), (40_000, None));
}

#[test]
fn a_long_outage_of_the_core_does_not_fill_the_memory() {
    let ledger = ledger();
    let first = key(0, "first");
    ledger.count(&first, MINUTE, 200, false);
    for account in 0..200_000 {
        ledger.count(&key(account, "k"), MINUTE, 200, false);
    }
    ledger.count(&first, MINUTE, 200, false);
    let minutes: usize = ledger.shards.iter().map(|shard| shard.lock().minutes.len()).sum();
    let days: usize = ledger.shards.iter().map(|shard| shard.lock().days.len()).sum();
    assert!(minutes <= SHARDS * SHARD_MINUTES && minutes > 1_000, "{minutes} minutes are kept");
    assert!(days <= SHARDS * SHARD_DAYS && days > 100_000, "{days} days are kept");
    let waiting: i64 = ledger.unreported(0).waiting.iter().map(|day| day.succeeded).sum();
    assert_eq!(waiting, 3, "accounts that are there are still counted");
    while ledger.unreported(0).waiting.iter().any(|day| day.succeeded > 0) {
        let report = ledger.next_report().unwrap();
        assert!(
            report.requests.iter().all(|row| !row.key_id.is_empty() || row.minute == DAY * Minute::PER_DAY)
        );
        ledger.answered(report.number);
    }
}
