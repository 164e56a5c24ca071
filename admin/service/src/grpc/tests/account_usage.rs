//! Usage of all accounts.

use std::collections::BTreeMap;

use petstore_database::testing::Connections;
use petstore_proto::internal::v1::{ReportUsageRequest, UsageRow};
use sea_orm::DbBackend;

use super::*;

/// The day at the start of a test: 2027-01-15.
const TODAY: i64 = 1_800_000_000 / 86_400;

/// Creates an account.
async fn account(admin: &mut Admin, name: &str) -> i64 {
    admin.create_account(new_account(name)).await.unwrap().into_inner().account.unwrap().id
}

/// Requests of one account and day: 2xx, 4xx, 429 and 5xx.
type DayOfAccount = (i64, i64, [i64; 4]);

async fn report(shop: &Shop, number: i64, rows: &[DayOfAccount]) {
    let row =
        |&(account_id, day, [succeeded, client_errors, refused, server_errors]): &DayOfAccount| UsageRow {
            account_id,
            minute: day * 1_440,
            succeeded,
            client_errors,
            refused,
            server_errors,
            ..UsageRow::default()
        };
    let requests = rows.iter().map(row).collect();
    let report = ReportUsageRequest { reporter: "gateway".into(), number, requests, ..Default::default() };
    reports(shop).report_usage(report).await.unwrap();
}

type Page = pb::ListAccountUsageResponse;

async fn page(admin: &mut Admin, request: &pb::ListAccountUsageRequest) -> Page {
    admin.list_account_usage(request.clone()).await.unwrap().into_inner()
}

/// Returns the rows of all pages: account, day, and requests with 2xx.
async fn all(admin: &mut Admin, mut request: pb::ListAccountUsageRequest) -> Vec<(String, i64, i64)> {
    let mut rows = Vec::new();
    loop {
        let page = page(admin, &request).await;
        assert!(page.usage.len() <= 2 && (page.usage.len() == 2 || page.next_page_token.is_empty()));
        let day = |it: &pb::AccountUsage| it.start_time.unwrap().seconds / 86_400;
        rows.extend(page.usage.iter().map(|it| (it.account.clone(), day(it), it.counts.unwrap().succeeded)));
        if page.next_page_token.is_empty() {
            return rows;
        }
        request.page_token = page.next_page_token;
    }
}

fn pages_of_two() -> pb::ListAccountUsageRequest {
    pb::ListAccountUsageRequest { page_size: 2, ..Default::default() }
}

fn start_of(day: i64) -> prost_types::Timestamp {
    prost_types::Timestamp { seconds: day * 86_400, nanos: 0 }
}

#[tokio::test]
async fn the_rows_of_an_account_are_its_own_report_and_its_months_their_sums() {
    let shop = Shop::open().await;
    let mut admin = local(&shop);
    let names = ["acme", "bee", "idle", "zoo"];
    let mut ids = Vec::new();
    for name in names {
        ids.push(account(&mut admin, name).await);
    }
    let mut rows = vec![(0, TODAY, [9; 4]), (4_711, TODAY, [9; 4])]; // of no account, and of an unknown one
    for days in 0..90 {
        rows.extend([ids[0], ids[3]].map(|id| (id, TODAY - days, [id + days, 1, 2, 3])));
    }
    rows.push((ids[1], TODAY - 3, [5, 0, 0, 0]));
    report(&shop, 1, &rows).await;

    for (start, days) in [(None, 30), (Some(start_of(TODAY - 200)), 89)] {
        let request = pb::ListAccountUsageRequest { start_time: start, ..pages_of_two() };
        let mut expected = Vec::new();
        for name in names {
            let (account, start_time) = (name.into(), start);
            let single = pb::GetUsageRequest { account, start_time, ..Default::default() };
            let periods = admin.get_usage(single).await.unwrap().into_inner().periods;
            let rows = periods.iter().map(|it| {
                (name.to_owned(), it.start_time.unwrap().seconds / 86_400, it.counts.unwrap().succeeded)
            });
            expected.extend(rows.filter(|(_, day, _)| *day > TODAY - days)); // the 90th day may be incomplete
        }
        assert_eq!(all(&mut admin, request).await, expected);
    }

    // The first of the months of which every day can be listed is November; October is cut.
    let months = pb::ListAccountUsageRequest { interval: 3, ..pages_of_two() };
    let [november, december, january] = [TODAY - 75, TODAY - 45, TODAY - 14];
    let mut sums = BTreeMap::new();
    for (id, day, [succeeded, ..]) in rows.into_iter().filter(|(_, day, _)| *day >= november) {
        let month = [january, december, november].into_iter().find(|month| day >= *month).unwrap();
        if let Some(index) = ids.iter().position(|known| *known == id) {
            *sums.entry((names[index].to_owned(), month)).or_default() += succeeded;
        }
    }
    let sums: Vec<_> = sums.into_iter().map(|((name, month), sum)| (name, month, sum)).collect();
    assert_eq!((sums.len(), all(&mut admin, months.clone()).await), (7, sums));
    let range = page(&mut admin, &months).await;
    assert_eq!((range.start_time, range.end_time), (Some(start_of(november)), Some(start_of(january + 31))));

    let one = pb::ListAccountUsageRequest {
        start_time: Some(start_of(december + 7)),
        end_time: Some(start_of(january)),
        ..months.clone()
    };
    let december_only = all(&mut admin, one).await;
    assert_eq!(december_only.iter().map(|(_, month, _)| *month).collect::<Vec<_>>(), [december; 2]);
    let row = page(&mut admin, &months).await.usage.swap_remove(0);
    assert_eq!((row.account_id, row.plan(), row.day_limit), (ids[0], pb::Plan::Free, 1_000));
    assert_eq!(row.counts.unwrap().server_errors, 3 * 30);
}

#[tokio::test]
async fn pages_are_of_one_range_even_if_a_day_ends_between_them() {
    let shop = Shop::open().await;
    let mut admin = local(&shop);
    let mut rows = Vec::new();
    for name in ["acme", "bee", "zoo"] {
        let id = account(&mut admin, name).await;
        rows.extend([TODAY - 29, TODAY, TODAY + 1].map(|day| (id, day, [7, 0, 0, 0])));
    }
    let (later, before): (Vec<_>, Vec<_>) = rows.into_iter().partition(|(_, day, _)| *day > TODAY);
    report(&shop, 1, &before).await;
    let mut request = pages_of_two();
    let first = page(&mut admin, &request).await;
    shop.hand.advance(Duration::from_hours(24));
    report(&shop, 2, &later).await;
    request.page_token = first.next_page_token;
    let days: Vec<_> = all(&mut admin, request.clone()).await.into_iter().map(|(_, day, _)| day).collect();
    assert_eq!(days, [TODAY - 29, TODAY, TODAY - 29, TODAY]);
    let second = page(&mut admin, &request).await;
    assert_eq!((second.start_time, second.end_time), (first.start_time, first.end_time));
    assert_eq!(all(&mut admin, pages_of_two()).await.len(), 2 * 3, "a new list is of the new range");

    let other = pb::ListAccountUsageRequest { interval: 3, ..request };
    let refusal = admin.list_account_usage(other).await.unwrap_err();
    assert_eq!(reason(&refusal), "INVALID_CURSOR");
}

#[tokio::test]
async fn accounts_at_or_above_four_fifths_of_their_day_are_near_their_limit() {
    let shop = Shop::open().await;
    let mut admin = local(&shop);
    let mut ids = Vec::new();
    for name in ["below", "at", "above", "yesterday", "agreed", "refused"] {
        ids.push(account(&mut admin, name).await);
    }
    let limits = Some(pb::Limits { per_minute: 5, per_day: 10 });
    let agreed = pb::Account { plan: pb::Plan::Enterprise.into(), limits, ..Default::default() };
    admin.update_account(update("agreed", agreed, &["plan", "limits"])).await.unwrap();
    let rows = [
        (ids[0], TODAY, [799, 0, 0, 0]),
        (ids[1], TODAY, [700, 60, 0, 40]),
        (ids[2], TODAY, [0, 1_500, 0, 0]),
        (ids[3], TODAY - 1, [800, 0, 0, 0]),
        (ids[4], TODAY, [8, 0, 0, 0]),
        (ids[5], TODAY, [0, 0, 900, 0]),
    ];
    report(&shop, 1, &rows).await;
    let near_limit = pb::ListAccountUsageRequest { near_limit: true, ..pages_of_two() };
    let near: Vec<_> = all(&mut admin, near_limit.clone()).await.into_iter().map(|(name, ..)| name).collect();
    assert_eq!(near, ["at", "above", "agreed"]);
    assert_eq!(page(&mut admin, &near_limit).await.usage[0].day_limit, 1_000);
    let over_limit = pb::ListAccountUsageRequest { over_limit: true, ..pages_of_two() };
    let over: Vec<_> = all(&mut admin, over_limit.clone()).await.into_iter().map(|(name, ..)| name).collect();
    assert_eq!(over, ["above"]);

    // A smaller plan applies at once.
    let pro = pb::Account { plan: pb::Plan::Pro.into(), ..Default::default() };
    admin.update_account(update("at", pro, &["plan"])).await.unwrap();
    let near: Vec<_> = all(&mut admin, near_limit.clone()).await.into_iter().map(|(name, ..)| name).collect();
    assert_eq!(near, ["above", "agreed"]);

    let rule = "nearLimit is for the current day: it must not be given beside interval, startTime or endTime"
        .to_owned();
    for (request, message) in [
        (pb::ListAccountUsageRequest { interval: 2, ..near_limit.clone() }, rule.as_str()),
        (pb::ListAccountUsageRequest { interval: 3, ..over_limit }, &rule.replace("near", "over")),
        (pb::ListAccountUsageRequest { end_time: Some(start_of(TODAY)), ..near_limit }, &rule),
        (pb::ListAccountUsageRequest { interval: 1, ..pages_of_two() }, "interval must be one of day, month"),
        (pb::ListAccountUsageRequest { interval: 4, ..pages_of_two() }, "interval must be one of day, month"),
    ] {
        let refusal = admin.list_account_usage(request).await.unwrap_err();
        assert_eq!((reason(&refusal).as_str(), refusal.message()), ("INVALID_PARAMETER", message));
    }
}

/// Adds this many accounts with requests on each of two days.
async fn fill(database: &Connections, accounts: i64) {
    for first in (1..=accounts).step_by(10_000) {
        // Several statements: each has the time limit of any other.
        let numbers = format!(
            "WITH RECURSIVE numbers (n) AS (SELECT {first} UNION ALL SELECT n + 1 FROM numbers WHERE n < {})",
            accounts.min(first + 9_999)
        );
        for (into, select) in [
            ("accounts (name, plan, created_at, revision)", "'account-' || n, 'free', 1, n".to_owned()),
            ("usage_days", format!("n, {TODAY}, 900, 0, 0, 0, 0")),
            ("usage_days", format!("n, {TODAY} - 1, 1, 0, 0, 0, 0")),
        ] {
            let insert = format!("INSERT INTO {into} {numbers} SELECT {select} FROM numbers");
            database.execute_unprepared(&insert).await.unwrap();
        }
    }
    if database.backend() == DbBackend::Postgres {
        // As autovacuum does soon after. SQLite's statistics stay those of a young store.
        database.execute_unprepared("ANALYZE accounts, usage_days").await.unwrap();
    }
}

#[tokio::test]
async fn the_last_page_of_a_hundred_thousand_accounts_is_as_small_as_the_first() {
    const ACCOUNTS: i64 = 100_000;
    let shop = Shop::open().await;
    let mut admin = local(&shop);
    fill(shop.core.store.database().writer(), ACCOUNTS).await;
    let end_of_month = TODAY + 16;
    for (near_limit, interval, rows_of_account, last) in
        [(false, 0, 2, TODAY), (false, 3, 1, end_of_month), (true, 0, 1, TODAY)]
    {
        let mut request = pb::ListAccountUsageRequest { near_limit, interval, ..pages_of_two() };
        request.page_size = 100;
        let tokens = crate::domain::PageTokens::new(
            'u',
            &(interval, request.start_time, request.end_time, near_limit, false),
        );
        let first = page(&mut admin, &request).await;
        let days = [first.start_time, first.end_time].map(|time| time.unwrap().seconds / 86_400);
        let position = |account: i64| tokens.token(&format!("{}.{}.{account}.{last}", days[0], days[1]));
        assert_eq!((first.usage.len(), first.usage[0].account.as_str()), (100, "account-1"));
        assert_eq!(first.next_page_token, position(100 / rows_of_account));
        request.page_token = position(ACCOUNTS - 25);
        let last = page(&mut admin, &request).await;
        let rows = usize::try_from(25 * rows_of_account).unwrap();
        assert_eq!((last.usage.len(), last.next_page_token.as_str()), (rows, ""));
    }
}
