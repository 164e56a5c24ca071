use super::*;
use crate::{
    domain::Tally,
    store::{
        Store,
        test_support::{new_store, open},
    },
};

const NOW: UnixMillis = UnixMillis(1_800_000_000_000);
const ACCOUNT: AccountId = AccountId(7);

fn today() -> Day {
    Day::containing(NOW)
}

fn row(account: AccountId, day: Day, succeeded: i64) -> (AccountId, UsageDay) {
    (account, UsageDay { day, tally: Tally { succeeded, get_pet: 1, ..Tally::default() } })
}

fn days(rows: &[(AccountId, UsageDay)]) -> UsageReport {
    UsageReport { days: rows.to_vec(), ..UsageReport::default() }
}

/// Requests of the account that were answered with 2xx, by day.
async fn succeeded(store: &Store) -> Vec<(Day, i64)> {
    let usage = store.usage().since(ACCOUNT, Day(0), "").await.unwrap();
    usage.days.into_iter().map(|day| (day.day, day.tally.succeeded)).collect()
}

#[tokio::test]
async fn reports_add_up_by_account_and_day() {
    let (store, _folder) = new_store().await;
    let rows = [row(ACCOUNT, today(), 5), row(ACCOUNT, today().minus(1), 2), row(AccountId(8), today(), 100)];
    store.usage().record("one", 1, days(&rows), NOW).await.unwrap();
    store.usage().record("other", 1, days(&[row(ACCOUNT, today(), 3)]), NOW).await.unwrap();
    assert_eq!(succeeded(&store).await, [(today().minus(1), 2), (today(), 8)]);
    let usage = store.usage().since(ACCOUNT, today(), "one").await.unwrap();
    let tally = Tally { succeeded: 8, get_pet: 2, ..Tally::default() };
    assert_eq!(usage, AccountUsage { days: vec![UsageDay { day: today(), tally }], last_report: 1 });
}

#[tokio::test]
async fn a_report_that_is_sent_again_is_not_counted_again() {
    let (store, home) = new_store().await;
    let other_core = open(&home).await;
    let row = [row(ACCOUNT, today(), 5)];
    let (first, second) = tokio::join!(
        store.usage().record("gateway", 1, days(&row), NOW),
        other_core.usage().record("gateway", 1, days(&row), NOW)
    );
    first.unwrap();
    second.unwrap();
    store.usage().record("gateway", 2, days(&row), NOW).await.unwrap();
    store.usage().record("gateway", 1, days(&row), NOW).await.unwrap();
    assert_eq!(succeeded(&store).await, [(today(), 10)]);
}

#[tokio::test]
async fn days_are_kept_for_ninety_days_and_then_forgotten_in_bounded_batches() {
    let (store, _folder) = new_store().await;
    let surplus = 10;
    for batch in 0..2 {
        let accounts =
            (0..=i64::try_from(SWEEP).unwrap() / 2 + surplus).map(|n| AccountId(batch * 10_000 + n));
        let rows: Vec<_> = accounts.map(|account| row(account, today().minus(90), 1)).collect();
        store
            .usage()
            .record("gateway", batch + 1, days(&rows), NOW.minus(Duration::from_hours(90 * 24)))
            .await
            .unwrap();
    }
    store.usage().record("gateway", 3, days(&[row(ACCOUNT, today().minus(89), 4)]), NOW).await.unwrap();
    let left = usage_day::Entity::find().all(&store.reader).await.unwrap().len();
    assert_eq!(left, 1 + 2 * usize::try_from(surplus + 1).unwrap(), "one report forgets a bounded number");
    store.usage().record("gateway", 4, days(&[]), NOW).await.unwrap();
    assert_eq!(succeeded(&store).await, [(today().minus(89), 4)]);
}

#[tokio::test]
async fn a_run_that_is_over_is_forgotten() {
    let (store, _folder) = new_store().await;
    store.usage().record("old", 1, days(&[]), NOW).await.unwrap();
    let later = NOW.plus(REPORTER_MEMORY).plus(Duration::from_millis(1));
    store.usage().record("new", 1, days(&[]), later).await.unwrap();
    let runs = usage_reporter::Entity::find().all(&store.reader).await.unwrap();
    assert_eq!(runs.into_iter().map(|run| run.id).collect::<Vec<_>>(), ["new"]);
}
