//! Usage by day and by minute, and the overview.

use petstore_core::accounts::Minute;
use petstore_proto::internal::v1::{self as internal, ReportUsageRequest, UsageRow};

use super::*;

#[tokio::test]
async fn calls_of_a_deprecated_operation_are_reported_by_account_by_day_and_by_key() {
    let shop = Shop::open().await;
    let mut admin = local(&shop);
    let (acme, [first, second]) = account_with_keys(&mut admin, "acme").await;
    let (zoo, [other, _]) = account_with_keys(&mut admin, "zoo").await;
    let (moved, [third, _]) = account_with_keys(&mut admin, "moved").await;
    let day = Minute::PER_DAY;
    let of_get_pet = |row: UsageRow, get_pet| UsageRow { get_pet, ..row };
    let requests = vec![
        of_get_pet(minute(acme, &first, MINUTE, 10), 8),
        minute(acme, &second, MINUTE, 5), // and 2 refused in each row
        of_get_pet(minute(acme, &first, MINUTE - 7 * day, 100), 50),
        of_get_pet(minute(zoo, &other, MINUTE - 6 * day, 20), 20),
        minute(moved, &third, MINUTE, 7),
        of_get_pet(minute(moved, &third, MINUTE - 30 * day, 7), 9),
    ];
    let report = ReportUsageRequest { reporter: "gateway".into(), number: 1, requests, ..Default::default() };
    reports(&shop).report_usage(report).await.unwrap();
    let mut used = async |account: &str, by: pb::DeprecatedUseBy, days| {
        let request = pb::ListDeprecatedUseRequest { account: account.into(), by: by.into(), days };
        let answer = admin.list_deprecated_use(request).await.unwrap().into_inner();
        assert!(!answer.has_more);
        let ago =
            |moment: Option<prost_types::Timestamp>| moment.map(|it| MINUTE / day - it.seconds / 86_400);
        let row = |it: pb::DeprecatedUse| {
            let other = it.other_requests.unwrap();
            (it.account + &it.key_id, ago(it.start_time), it.calls, it.recent_calls, other, ago(it.last_day))
        };
        answer.uses.into_iter().map(row).collect::<Vec<_>>()
    };
    let row = |of: &str, day, calls, recent, other, last| (of.to_owned(), day, calls, recent, other, last);
    let by_account =
        [row("acme", None, 58, Some(8), 63, Some(0)), row("zoo", None, 20, Some(20), 2, Some(6))];
    assert_eq!(used("", pb::DeprecatedUseBy::Unspecified, 0).await, by_account);
    assert_eq!(
        used("", pb::DeprecatedUseBy::Account, 7).await,
        [row("zoo", None, 20, Some(20), 2, Some(6)), row("acme", None, 8, Some(8), 11, Some(0)),]
    );
    let of_moved = [row("moved", None, 0, Some(0), 9, None)];
    assert_eq!(used("moved", pb::DeprecatedUseBy::Account, 30).await, of_moved, "it moved");
    assert_eq!(
        used("", pb::DeprecatedUseBy::Day, 8).await,
        [
            row("", Some(7), 50, None, 52, Some(7)),
            row("", Some(6), 20, None, 2, Some(6)),
            row("", Some(0), 8, None, 11, Some(0)), // without those of an account that never called it
        ]
    );
    assert_eq!(used("zoo", pb::DeprecatedUseBy::Day, 0).await, [row("zoo", Some(6), 20, None, 2, Some(6))]);
    let mut keys = [
        row(&format!("acme{first}"), None, 8, None, 4, Some(0)),
        row(&format!("acme{second}"), None, 0, None, 7, None),
    ];
    keys.sort_by_key(|key| std::cmp::Reverse(key.2));
    assert_eq!(used("acme", pb::DeprecatedUseBy::Key, 0).await, keys);
    assert_eq!(used("zoo", pb::DeprecatedUseBy::Key, 0).await, [], "24 hours");

    let of =
        |account: &str, by: i32, days| pb::ListDeprecatedUseRequest { account: account.into(), by, days };
    for (wrong, message) in [
        (of("", 3, 0), "by needs an account if it is key"),
        (of("acme", 3, 1), "days is not for keys: they are counted for 24 hours"),
        (of("", 4, 0), "by must be one of account, day, key"),
        (of("", 1, 91), "days must be from 1 to 90"),
    ] {
        let refusal = admin.list_deprecated_use(wrong).await.unwrap_err();
        assert_eq!((reason(&refusal).as_str(), refusal.message()), ("INVALID_PARAMETER", message));
    }
}

/// The minute at the start of a test.
const MINUTE: i64 = 1_800_000_000 / 60;

fn minute(account_id: i64, key_id: &str, minute: i64, succeeded: i64) -> UsageRow {
    let key_id = key_id.to_owned();
    UsageRow { account_id, key_id, minute, succeeded, refused: 2, ..Default::default() }
}

/// Returns the identifiers of the account and of its two keys.
async fn account_with_keys(admin: &mut Admin, name: &str) -> (i64, [String; 2]) {
    let account = admin.create_account(new_account(name)).await.unwrap().into_inner().account.unwrap();
    let mut keys = Vec::new();
    for _ in 0..2 {
        keys.push(admin.create_key(new_key(name)).await.unwrap().into_inner().key.unwrap().id);
    }
    keys.sort();
    (account.id, keys.try_into().unwrap())
}

#[tokio::test]
async fn usage_is_reported_by_minute_for_a_key_for_each_key_and_for_all_accounts() {
    let shop = Shop::open().await;
    let mut admin = local(&shop);
    let (acme, [first, second]) = account_with_keys(&mut admin, "acme").await;
    let (zoo, [other, _]) = account_with_keys(&mut admin, "zoo").await;
    let requests = vec![
        minute(acme, &first, MINUTE, 1),
        minute(acme, &second, MINUTE, 10),
        minute(acme, &first, MINUTE - 59, 100),
        minute(acme, &first, MINUTE - 60, 1_000),
        minute(zoo, &other, MINUTE, 10_000),
    ];
    let mut reports = reports(&shop);
    let report = ReportUsageRequest { reporter: "gateway".into(), number: 1, requests, ..Default::default() };
    reports.report_usage(report.clone()).await.unwrap();
    reports.report_usage(report).await.unwrap(); // sent again

    let by_minute =
        |account: &str| pb::GetUsageRequest { account: account.into(), interval: 1, ..Default::default() };
    let mut listed = async |request: pb::GetUsageRequest| {
        let periods = admin.get_usage(request).await.unwrap().into_inner().periods;
        periods
            .into_iter()
            .map(|it| {
                let counts = it.counts.unwrap();
                assert_eq!(counts.refused % 2, 0);
                (it.start_time.unwrap().seconds / 60 - MINUTE, it.account, it.key_id, counts.succeeded)
            })
            .collect::<Vec<_>>()
    };
    let row =
        |ago: i64, account: &str, key: &str, succeeded| (-ago, account.to_owned(), key.to_owned(), succeeded);
    assert_eq!(listed(by_minute("")).await, [row(59, "", "", 100), row(0, "", "", 10_011)]);
    assert_eq!(listed(by_minute("acme")).await, [row(59, "acme", "", 100), row(0, "acme", "", 11)]);
    let of_key = pb::GetUsageRequest { key_id: second.clone(), ..by_minute("") };
    assert_eq!(listed(of_key).await, [row(0, "acme", &second, 10)]);
    let by_key = pb::GetUsageRequest { by_key: true, ..by_minute("acme") };
    assert_eq!(
        listed(by_key.clone()).await,
        [row(59, "acme", &first, 100), row(0, "acme", &first, 1), row(0, "acme", &second, 10)]
    );
    let since = Some(prost_types::Timestamp { seconds: (MINUTE - 60) * 60 + 59, nanos: 0 });
    assert_eq!(
        listed(pb::GetUsageRequest { start_time: since, ..by_key }).await[0],
        row(60, "acme", &first, 1_000)
    );
}

#[tokio::test]
async fn unsupported_breakdowns_of_usage_are_refused() {
    let shop = Shop::open().await;
    let mut admin = local(&shop);
    let (_, [key, _]) = account_with_keys(&mut admin, "acme").await;
    account_with_keys(&mut admin, "zoo").await;
    let of = |account: &str, key_id: &str, interval: i32, by_key| pb::GetUsageRequest {
        account: account.into(),
        key_id: key_id.into(),
        interval,
        by_key,
        ..Default::default()
    };
    for (wrong, code, message) in [
        (
            of("", &key, 0, false),
            "INVALID_PARAMETER",
            "keyId is for minutes only: days are counted by account",
        ),
        (
            of("acme", "", 2, true),
            "INVALID_PARAMETER",
            "byKey is for minutes only: days are counted by account",
        ),
        (of("", "", 1, true), "INVALID_PARAMETER", "byKey needs an account"),
        (of("", "", 3, false), "INVALID_PARAMETER", "interval must be one of minute, day"),
        (of("", "a key", 1, false), "INVALID_PARAMETER", "keyId must be the UUID of a key"),
        (of("zoo", &key, 1, false), "KEY_NOT_FOUND", &format!("there is no key {key}")),
    ] {
        let refusal = admin.get_usage(wrong).await.unwrap_err();
        assert_eq!((reason(&refusal).as_str(), refusal.message()), (code, message));
    }
}

#[tokio::test]
async fn the_overview_has_every_minute_all_causes_and_the_most_refused_accounts() {
    let shop = Shop::open().await;
    let mut admin = local(&shop);
    let (acme, [key, _]) = account_with_keys(&mut admin, "acme").await;
    let (zoo, [other, _]) = account_with_keys(&mut admin, "zoo").await;
    let count = |minute, cause: pb::RefusalCause, requests| internal::RefusalCount {
        minute,
        cause: cause.into(),
        requests,
    };
    let report = ReportUsageRequest {
        reporter: "gateway".into(),
        number: 1,
        requests: vec![
            minute(acme, &key, MINUTE, 5),
            minute(acme, &key, MINUTE - 1, 7),
            minute(zoo, &other, MINUTE, 1),
            minute(zoo, &other, MINUTE - 60, 1),
        ],
        refusal_counts: vec![
            count(MINUTE, pb::RefusalCause::MinuteLimit, 6),
            count(MINUTE - 2, pb::RefusalCause::InvalidKey, 40),
            count(MINUTE - 60, pb::RefusalCause::KeyRevoked, 9),
            internal::RefusalCount { minute: MINUTE, cause: 99, requests: 1 }, // of a newer gateway
        ],
        ..Default::default()
    };
    reports(&shop).report_usage(report).await.unwrap();
    let overview = admin.get_overview(pb::GetOverviewRequest::default()).await.unwrap().into_inner();
    let minutes: Vec<_> = overview.minutes.iter().map(|it| it.counts.unwrap().succeeded).collect();
    assert_eq!((minutes.len(), &minutes[57..], minutes.iter().sum()), (60, &[0, 7, 6][..], 13));
    assert_eq!(overview.minutes[0].start_time.unwrap().seconds, (MINUTE - 59) * 60);
    let refusals: Vec<_> =
        overview.refusals.iter().map(|it| (it.cause(), it.code.as_str(), it.requests)).collect();
    let expected = [
        (pb::RefusalCause::InvalidKey, "INVALID_API_KEY", 40),
        (pb::RefusalCause::MinuteLimit, "RATE_LIMITED", 6),
    ];
    assert_eq!(refusals, expected);
    let accounts: Vec<_> =
        overview.refused_accounts.iter().map(|it| (it.account.as_str(), it.requests)).collect();
    assert_eq!(accounts, [("acme", 4), ("zoo", 2)]);
    let longer = admin.get_overview(pb::GetOverviewRequest { minutes: 61 }).await.unwrap().into_inner();
    assert_eq!((longer.minutes.len(), longer.refusals.len()), (61, 3));
    for minutes in [-1, 1_441] {
        let refusal = admin.get_overview(pb::GetOverviewRequest { minutes }).await.unwrap_err();
        assert_eq!(refusal.message(), "minutes must be from 1 to 1440");
    }
}
