use std::time::Duration;

use super::*;
use crate::accounts::{RefusalCause, UsageReport, store::test_support::new_accounts};

const NOW: UnixMillis = UnixMillis(1_800_000_000_000);

fn refusal(request_id: &str, account: Option<i64>, cause: RefusalCause, at: UnixMillis) -> Refusal {
    Refusal {
        request_id: request_id.to_owned(),
        at,
        cause,
        account: account.map(AccountId),
        key_id: None,
        limit: Some(60),
        since: Some(at),
        until: Some(at.plus(Duration::from_mins(1))),
        repeats: 3,
    }
}

/// Reports the refusals, in parts no larger than a report may be.
async fn report(accounts: &Accounts, refusals: Vec<Refusal>) {
    for (number, part) in refusals.chunks(500).enumerate() {
        let report = UsageReport { refusals: part.to_vec(), ..UsageReport::default() };
        let reporter = format!("{}/{number}", part[0].request_id);
        accounts.record_usage(&reporter, 1, report, NOW).await.unwrap();
    }
}

async fn count(accounts: &Accounts, account: i64) -> usize {
    accounts.refusals_of_account(AccountId(account), UnixMillis(0)).await.unwrap().len()
}

#[tokio::test]
async fn a_refusal_is_found_by_its_request_and_its_account_newest_first() {
    let (accounts, _home) = new_accounts().await;
    let later = NOW.plus(Duration::from_secs(1));
    let first = refusal("request-1", Some(7), RefusalCause::MinuteLimit, NOW);
    let again = Refusal { cause: RefusalCause::DayLimit, at: later, ..first.clone() };
    let other = refusal("request-2", Some(8), RefusalCause::KeyRevoked, later);
    let nobody = refusal("request-3", None, RefusalCause::InvalidKey, later);
    report(&accounts, vec![first.clone(), again.clone(), other, nobody.clone()]).await;
    let of_request = async |id| accounts.refusals_of_request(id).await.unwrap();
    assert_eq!(of_request("request-1").await, std::slice::from_ref(&again), "the newest of the account");
    assert_eq!(of_request("request-3").await, [nobody]);
    assert_eq!(of_request("request-9").await, []);
    assert_eq!(accounts.refusals_of_account(AccountId(7), NOW).await.unwrap(), [again.clone(), first]);
    assert_eq!(accounts.refusals_of_account(AccountId(7), later).await.unwrap(), [again]);
}

#[tokio::test]
async fn an_account_refused_constantly_displaces_no_other_account_or_cause() {
    let (accounts, _home) = new_accounts().await;
    let before = [
        refusal("other-account", Some(8), RefusalCause::LimiterBan, NOW),
        refusal("other-cause", Some(7), RefusalCause::MinuteLimit, NOW),
    ];
    report(&accounts, before.to_vec()).await;
    let most = usize::try_from(retention::REFUSALS_OF_ACCOUNT).unwrap();
    let flood = (0..2 * most).map(|n| {
        let at = UnixMillis(NOW.0 + 1 + u64::try_from(n).unwrap());
        refusal(&format!("flood-{n:04}"), Some(7), RefusalCause::LimiterBan, at)
    });
    report(&accounts, flood.collect()).await;
    assert_eq!((count(&accounts, 7).await, count(&accounts, 8).await), (most + 1, 1));
    let last = accounts.refusals_of_account(AccountId(7), NOW).await.unwrap().remove(0);
    assert_eq!(last.request_id, format!("flood-{:04}", 2 * most - 1), "the last ones are kept");
}

#[tokio::test]
async fn over_the_bound_the_most_frequent_accounts_and_causes_are_deleted_first() {
    let (accounts, _home) = new_accounts().await;
    let old = refusal("the-only-one", Some(8), RefusalCause::LimiterBan, NOW);
    let later = |n: u64| UnixMillis(NOW.0 + 1 + n);
    let loud =
        (0..40).map(|n| refusal(&format!("loud-{n:04}"), Some(7), RefusalCause::MinuteLimit, later(n)));
    let other = (0..10).map(|n| refusal(&format!("other-{n:03}"), Some(7), RefusalCause::DayLimit, later(n)));
    report(&accounts, [old].into_iter().chain(loud).chain(other).collect()).await;
    for (deleted, left) in [(20, 31), (10, 21), (1, 20), (0, 20)] {
        assert_eq!(accounts.forget_surplus_refusals(20, 1_000).await.unwrap(), deleted);
        assert_eq!(count(&accounts, 7).await + count(&accounts, 8).await, left);
    }
    assert_eq!(count(&accounts, 8).await, 1, "older than all others, and the only one of its cause");
    assert_eq!(accounts.refusals_of_request("loud-0039").await.unwrap().len(), 1, "the newest ones are kept");
}

#[tokio::test]
async fn over_the_bound_the_oldest_are_deleted_if_every_account_has_few() {
    let (accounts, _home) = new_accounts().await;
    let later = |n: u64| UnixMillis(NOW.0 + n);
    let of_accounts = (0..30).map(|n| {
        refusal(&format!("account-{n}"), Some(n), RefusalCause::MinuteLimit, later(u64::try_from(n).unwrap()))
    });
    report(&accounts, of_accounts.collect()).await;
    for deleted in [7, 3, 0] {
        assert_eq!(accounts.forget_surplus_refusals(20, 7).await.unwrap(), deleted);
    }
    assert_eq!((count(&accounts, 9).await, count(&accounts, 10).await), (0, 1));
}

#[tokio::test]
async fn refusals_are_deleted_after_a_day_in_batches() {
    let (accounts, _home) = new_accounts().await;
    let old = (0..5).map(|n| refusal(&format!("old-{n:05}"), Some(n), RefusalCause::MinuteLimit, NOW));
    let recent = refusal("recent-1", Some(0), RefusalCause::MinuteLimit, NOW.plus(Duration::from_secs(1)));
    report(&accounts, old.chain([recent]).collect()).await;
    let at = |millis| UnixMillis(NOW.plus(retention::REFUSALS).0 + millis);
    assert_eq!(accounts.forget_old_refusals(UnixMillis(at(0).0 - 1), 2).await.unwrap(), 0, "not a day old");
    for forgotten in [2, 2, 1, 0] {
        assert_eq!(accounts.forget_old_refusals(at(0), 2).await.unwrap(), forgotten);
    }
    assert_eq!(accounts.refusals_of_request("recent-1").await.unwrap().len(), 1);
}
