//! Usage of all accounts, as it is read for billing.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicUsize, Ordering},
};

use petstore_clock::{Clock, Day};
use petstore_proto::internal::v1::{ReportUsageRequest, UsageRow, usage_service_client::UsageServiceClient};
use petstore_testkit::{
    Client, Server, eventually,
    grpc::{channel, rewriting_proxy},
    raw,
};
use serde_json::{Value, json};

use super::{FIRST_TOKEN, REPORT_TIMEOUT, begin_within_one_day};
use crate::{
    ACCOUNT, key_of, petstore, serve,
    split::{core_with_a_key, start_gateway},
};

/// Number of accounts: more than a page has.
const ACCOUNTS: i64 = 130;

/// Creates the accounts, and reports requests of each on two days.
async fn used_by_many(operator: &Client, core: &Server) {
    let mut requests = Vec::new();
    let today = Day::containing(Clock::system().now());
    for number in 1..=ACCOUNTS {
        let account = json!({ "name": format!("account-{number}"), "plan": "pro" });
        let account = operator.post("/admin/v1/accounts", &account).await.assert_status(201).json();
        for (days, client_errors) in [(0, 1), (1, 2)] {
            let (account_id, minute) = (account["id"].as_i64().unwrap(), (today.0 - days) * 1_440);
            let counts = UsageRow { succeeded: number, client_errors, refused: 3, ..UsageRow::default() };
            requests.push(UsageRow { account_id, minute, get_pet: 1, ..counts });
        }
    }
    let report = ReportUsageRequest { reporter: "test".into(), number: 1, requests, ..Default::default() };
    UsageServiceClient::new(channel(core.address("gRPC")).await).report_usage(report).await.unwrap();
}

/// Returns a client of the admin API with this token.
fn operator(gateway: &Server, token: &str) -> Client {
    gateway.admin().with_header("authorization", &format!("Bearer {}", token.trim()))
}

/// Returns the rows of all pages, and the number of pages.
async fn pages(operator: &Client, query: &str) -> (Vec<Value>, usize) {
    let (mut rows, mut token) = (Vec::new(), String::new());
    for pages in 1.. {
        let path = format!("/admin/v1/account-usage?pageSize=100{query}{token}");
        let mut page = operator.get(&path).await.assert_status(200).json();
        rows.append(page["usage"].as_array_mut().unwrap());
        match page["nextPageToken"].as_str().unwrap() {
            "" => return (rows, pages),
            next => token = format!("&pageToken={next}"),
        }
    }
    unreachable!("the last page has no token")
}

/// Returns the rows as the CSV file should have them.
fn as_csv(rows: &[Value]) -> String {
    let head = "date,accountId,account,plan,dayLimit,succeeded,clientErrors,refused,serverErrors,getPet,\
                startTime\r\n";
    let line = |row: &Value| {
        let (start, counts) = (row["startTime"].as_str().unwrap(), &row["counts"]);
        let own = [&row["accountId"], &row["account"], &row["plan"], &row["dayLimit"]];
        let own = own.map(ToString::to_string).join(",").replace('"', "");
        let counts = ["succeeded", "clientErrors", "refused", "serverErrors", "getPet"].map(|it| &counts[it]);
        format!("{},{own},{},{start}\r\n", &start[..10], counts.map(ToString::to_string).join(","))
    };
    head.to_owned() + &rows.iter().map(line).collect::<String>()
}

/// Returns the sum of each count of an account.
fn sums<'a>(periods: impl IntoIterator<Item = &'a Value>) -> BTreeMap<String, i64> {
    let mut sums = BTreeMap::new();
    for (name, count) in periods.into_iter().flat_map(|it| it["counts"].as_object().unwrap()) {
        *sums.entry(name.clone()).or_default() += count.as_i64().unwrap();
    }
    sums
}

#[tokio::test]
async fn pages_file_and_command_are_the_same_report_and_add_up_to_that_of_each_account() {
    let installation = petstore();
    let server = installation.start(&serve(&[])).await;
    let operator = operator(&server, &installation.read(FIRST_TOKEN));
    begin_within_one_day().await;
    used_by_many(&operator, &server).await;

    let (days, number) = pages(&operator, "").await;
    assert_eq!((days.len(), number), (260, 3));
    let file = operator.get("/admin/v1/account-usage.csv").await;
    assert_eq!(file.assert_status(200).text(), as_csv(&days));
    assert_eq!(file.header("content-type"), "text/csv; charset=utf-8");
    let printed = installation.run(&["usage", "--all", "--csv"]).await;
    assert_eq!((printed.code, printed.stdout.as_str()), (Some(0), file.text()), "{printed:?}");
    let listed = installation.json(&["usage", "--all"]).await;
    assert_eq!(listed["usage"], json!(days));
    let table = installation.run(&["usage", "--all"]).await.stdout;
    let lines: Vec<Vec<_>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    let date = &days[1]["startTime"].as_str().unwrap()[..10];
    assert_eq!(lines[0][..4], ["DATE", "ACCOUNT", "PLAN", "REQUESTS"]);
    assert_eq!((lines.len(), &lines[2][..4]), (261, [date, "account-1", "pro", "5"].as_slice()), "{table}");

    let (months, _) = pages(&operator, "&interval=month").await;
    let file = operator.get("/admin/v1/account-usage.csv?interval=month").await;
    assert_eq!(file.assert_status(200).text(), as_csv(&months));
    for account in ["account-1", "account-100", "account-130"] {
        let own = installation.json(&["usage", "--account", account]).await;
        let own = sums(own["periods"].as_array().unwrap());
        assert_eq!(own["clientErrors"], 3);
        for rows in [&days, &months] {
            assert_eq!(sums(rows.iter().filter(|row| row["account"] == account)), own, "{account}");
        }
    }

    // What cannot be a report is refused before the file begins.
    for query in [
        "interval=minute",
        "nearLimit=true&interval=day",
        "startTime=x",
        "interva=day",
        "pageSize=5",
        "page%53ize=5",
        "pageToken=x",
    ] {
        let path = format!("/admin/v1/account-usage.csv?{query}");
        operator.get(&path).await.assert_error_body(400, "INVALID_PARAMETER");
    }
    let guest = server.admin().get("/admin/v1/account-usage.csv").await;
    guest.assert_error_body(401, "INVALID_OPERATOR_TOKEN");
}

#[tokio::test]
async fn a_file_breaks_off_when_the_core_fails_midway_and_the_command_fails() {
    let installation = petstore();
    let (core, _) = core_with_a_key(&installation).await;
    let calls = AtomicUsize::new(0);
    let proxy = rewriting_proxy(core.address("gRPC"), move |path, message| {
        let is_second = path.ends_with("/ListAccountUsage") && calls.fetch_add(1, Ordering::Relaxed) % 2 == 1;
        if is_second { vec![0xff] } else { message } // no message of any release
    })
    .await;
    let gateway = start_gateway(&installation, &proxy.to_string()).await;
    gateway.ready().await;
    let token = installation.run(&["operator", "create", "boss", "--role", "admin"]).await.stdout;
    installation.write_secret("token", &token);
    used_by_many(&operator(&gateway, &token), &core).await;

    let request = format!(
        "GET /admin/v1/account-usage.csv HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         authorization: Bearer {}\r\n\r\n",
        token.trim()
    );
    let seen = String::from_utf8(raw::exchange(gateway.address("admin"), request.as_bytes()).await).unwrap();
    assert!(seen.starts_with("HTTP/1.1 200 OK\r\n") && seen.contains("transfer-encoding: chunked"), "{seen}");
    assert!(seen.contains(",account-50,"), "the first page arrived: {seen}");
    assert!(!seen.ends_with("0\r\n\r\n") && !seen.contains(",account-51,"), "the body has no end: {seen}");

    let core_url = format!("http://{proxy}");
    let target = ["--core-url", &core_url, "--operator-token-file", "token"];
    let exit = installation.run(&[["usage", "--all", "--csv"].as_slice(), &target].concat()).await;
    assert_eq!((exit.code, exit.stdout.lines().count()), (Some(1), 101), "{exit:?}");
    assert_eq!(exit.stderr.lines().count(), 1, "{exit:?}");
}

#[tokio::test]
async fn requests_granted_beyond_the_limit_of_a_day_are_a_metric() {
    let installation = petstore();
    let server = installation.start(&serve(&[])).await;
    let key =
        key_of(&installation, ACCOUNT, &["--plan", "enterprise", "--per-minute", "100", "--per-day", "5"])
            .await;
    begin_within_one_day().await;
    server.client(&key).sends(7, "/v1/pets").await;
    server.terminate().await;
    let larger =
        ["account", "set-plan", ACCOUNT, "--plan", "enterprise", "--per-minute", "100", "--per-day", "6"];
    assert_eq!(installation.run(&larger).await.code, Some(0));

    let server = installation.start(&serve(&[])).await; // it counts from nothing
    let client = server.client(&key);
    let overgranted = async |count: u64| {
        eventually(REPORT_TIMEOUT, async || {
            let metrics = server.admin().get("/metrics").await.text().to_owned();
            let line = format!("petstore_limit_overgranted_requests_total {count}");
            if metrics.lines().any(|it| it == line) { Ok(()) } else { Err(metrics) }
        })
        .await;
    };
    overgranted(0).await;
    client.sends(3, "/v1/pets").await; // the sixth to the eighth of the day
    overgranted(2).await;
    client.sends(4, "/v1/pets").await; // three are granted
    overgranted(5).await;
}
