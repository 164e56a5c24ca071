//! Usage, as operators see it.

use petstore_proto::admin::v1::{DeprecatedUse, ListDeprecatedUseResponse};
use petstore_testkit::{Answer, Installation, eventually, grpc::rewriting_proxy};
use prost::Message;
use prost_types::Timestamp;
use serde_json::{Value, json};

use super::{FIRST_TOKEN, REPORT_TIMEOUT, begin_within_one_day};
use crate::{
    ACCOUNT, key_of_new_account, petstore, serve,
    split::{Split, start_core},
};

#[tokio::test]
async fn the_usage_command_shows_the_days_of_a_running_service() {
    let installation = petstore();
    let server = installation.start(&serve(&[])).await;
    let key = key_of_new_account(&installation).await;
    begin_within_one_day().await;
    server.client(&key).get("/v1/pets").await.assert_status(200);
    server.client(&key).get("/v1/pets/1").await.assert_status(404);
    let counts = json!({ "succeeded": 1, "clientErrors": 1, "refused": 0, "serverErrors": 0, "getPet": 1 });
    let today = eventually(REPORT_TIMEOUT, async || {
        let today = today(&installation).await; // the days are reported every few seconds
        if today["counts"] == counts { Ok(today) } else { Err(today.to_string()) }
    })
    .await;

    let text = installation.run(&["usage", "--account", ACCOUNT]).await;
    assert_eq!(text.code, Some(0), "{text:?}");
    assert!(text.stderr.contains("for the current limits, ask a gateway"), "{text:?}");
    let lines: Vec<Vec<_>> = text.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    let date = &today["startTime"].as_str().unwrap()[..10];
    let head = ["DATE", "REQUESTS", "2XX", "4XX", "429", "5XX", "GETPET"];
    assert_eq!(lines, [head, [date, "2", "1", "1", "0", "0", "1"]], "{}", text.stdout);
}

#[tokio::test]
async fn the_deprecation_report_shows_who_still_calls_get_pet_by_account_day_and_key() {
    let installation = petstore();
    let server = installation.start(&serve(&[])).await;
    let key = key_of_new_account(&installation).await;
    let moved = installation.run(&["key", "create", "--account", ACCOUNT]).await;
    begin_within_one_day().await;
    server.client(&key).get("/v1/pets/1").await.assert_status(404);
    server.client(moved.stdout.trim()).sends(3, "/v1/pets").await;
    let row = eventually(REPORT_TIMEOUT, async || {
        let report = installation.json(&["deprecation"]).await;
        let row = report["uses"][0].clone();
        if row["calls"] == 1 && row["otherRequests"] == 3 { Ok(row) } else { Err(report.to_string()) }
    })
    .await;
    let today = &row["lastDay"].as_str().unwrap()[..10];
    let expected = json!({
        "account": ACCOUNT, "operationId": "getPet", "keyId": "", "calls": 1, "recentCalls": 1,
        "otherRequests": 3, "lastDay": row["lastDay"],
    });
    assert_eq!(row, expected);

    let text = installation.run(&["deprecation"]).await;
    let words: Vec<_> = text.stdout.split_whitespace().collect();
    let head = "ACCOUNT GETPET LAST 7 DAYS OTHER REQUESTS LAST GETPET";
    assert_eq!(words.join(" "), format!("{head} {ACCOUNT} 1 1 3 {today}"), "{text:?}");
    let days = installation.run(&["deprecation", "--by", "day", "--csv"]).await;
    let head = "date,account,keyId,calls,recentCalls,otherRequests,lastDate\r\n";
    assert_eq!(days.stdout, format!("{head}{today},,,1,,3,{today}\r\n"), "{days:?}");
    let keys = installation.run(&["deprecation", "--account", ACCOUNT, "--by", "key", "--csv"]).await;
    let lines: Vec<Vec<_>> = keys.stdout.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(
        (lines.len(), &lines[1][3..], &lines[2][3..]),
        (3, &["1", "", "0", today][..], &["0", "", "3", ""][..],),
        "the second key has moved: {keys:?}"
    );
    assert!(lines[1..].iter().all(|line| (line[1], line[2].len()) == (ACCOUNT, 36)), "{keys:?}");

    let refused = installation.run(&["deprecation", "--by", "key"]).await;
    assert_eq!(
        (refused.code, refused.stderr.as_str()),
        (Some(2), "error: --by needs an account if it is key\n")
    );
}

#[tokio::test]
async fn a_core_of_1_0_0_reports_deprecated_calls_by_account_and_is_asked_for_nothing_else() {
    let installation = petstore();
    let server = installation.start(&serve(&[])).await;
    key_of_new_account(&installation).await;
    let row = |account: &str| DeprecatedUse {
        account: account.to_owned(),
        operation_id: "getPet".to_owned(),
        calls: 7,
        last_day: Some(Timestamp { seconds: 1_795_651_200, nanos: 0 }),
        ..DeprecatedUse::default()
    };
    let answer = ListDeprecatedUseResponse { uses: vec![row("north"), row("south")], has_more: false };
    let proxy = rewriting_proxy(server.address("gRPC"), move |path, message| match path {
        "/petstore.admin.v1.AdminService/ListDeprecatedUse" => answer.encode_to_vec(),
        _ => message,
    })
    .await;
    let core_url = format!("http://{proxy}");
    let target = ["deprecation", "--core-url", &core_url, "--operator-token-file", FIRST_TOKEN];
    let text = installation.run(&target).await;
    let lines: Vec<Vec<_>> = text.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    let head = vec!["ACCOUNT", "GETPET", "LAST", "GETPET"];
    assert_eq!(lines, [head, vec!["north", "7", "2026-11-26"], vec!["south", "7", "2026-11-26"]], "{text:?}");
    let csv = installation.run(&[&target[..], &["--csv"]].concat()).await;
    assert!(csv.stdout.contains("\r\n,north,,7,,,2026-11-26\r\n"), "no number that nobody counted: {csv:?}");
    for other in [["--account", ACCOUNT], ["--by", "day"]] {
        let refused = installation.run(&[&target[..], &other].concat()).await;
        assert_eq!(
            (refused.code, refused.stdout.as_str(), refused.stderr.as_str()),
            (Some(1), "", "error: this core is older than 1.1.0: leave out --account and --by\n")
        );
    }
}

#[tokio::test]
async fn usage_is_reported_at_the_end_and_shown_without_the_service() {
    let installation = petstore();
    let server = installation.start(&serve(&[])).await;
    let key = key_of_new_account(&installation).await;
    begin_within_one_day().await;
    server.client(&key).sends(3, "/v1/pets").await;
    server.terminate().await;
    assert_eq!(today(&installation).await["counts"]["succeeded"], 3);
}

#[tokio::test]
async fn the_overview_counts_every_answer_of_an_outage() {
    let shop = Split::open().await;
    let address = shop.core.address("gRPC").to_string();
    let created = shop.installation.run(&["key", "create", "--account", ACCOUNT]).await;
    let (known, unknown) = (&shop.key, created.stdout.trim());
    let mut sent = Counts::default();
    sent.add(&shop.gateway.client(known).get("/v1/pets").await);
    shop.core.crash().await;
    for _ in 0..10 {
        sent.add(&shop.gateway.client(known).get("/v1/pets").await);
        sent.add(&shop.gateway.client(unknown).get("/v1/pets").await); // it cannot be checked
        sent.add(&shop.gateway.anonymous().get("/v1/pets").await);
        sent.add(&shop.gateway.client(known).get("/v1/usage").await);
    }
    assert_eq!((sent.succeeded, sent.client_errors, sent.server_errors), (1, 10, 30), "{sent:?}");
    // The documentation and preflights are no calls of an operation.
    shop.gateway.anonymous().get("/docs").await.assert_status(200);
    shop.gateway.anonymous().send("OPTIONS", "/v1/pets", &[], "").await.assert_status(204);

    let _core = start_core(&shop.installation, &address).await;
    eventually(REPORT_TIMEOUT, async || {
        let overview = shop.installation.json(&["overview"]).await;
        let counted = Counts::sum(&overview["minutes"]);
        if counted == sent { Ok(()) } else { Err(format!("{counted:?}")) }
    })
    .await;
    let usage = shop.installation.json(&["usage", "--account", ACCOUNT]).await;
    let own = Counts::sum(&usage["periods"]);
    assert_eq!((own.succeeded, own.client_errors), (1, 0), "{usage}");
    assert!((1..=10).contains(&own.server_errors), "those while the key was known: {usage}");
}

/// Number of answers by class.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    succeeded: u64,
    client_errors: u64,
    refused: u64,
    server_errors: u64,
}

impl Counts {
    fn add(&mut self, answer: &Answer) {
        *match answer.status() {
            429 => &mut self.refused,
            400..500 => &mut self.client_errors,
            500.. => &mut self.server_errors,
            _ => &mut self.succeeded,
        } += 1;
    }

    /// Returns the sums over periods.
    fn sum(periods: &Value) -> Self {
        let sum = |member: &str| {
            let counts = periods.as_array().into_iter().flatten().map(|period| &period["counts"][member]);
            counts.map(|count| count.as_u64().unwrap_or_default()).sum()
        };
        Self {
            succeeded: sum("succeeded"),
            client_errors: sum("clientErrors"),
            refused: sum("refused"),
            server_errors: sum("serverErrors"),
        }
    }
}

async fn today(installation: &Installation) -> Value {
    let usage = installation.json(&["usage", "--account", ACCOUNT]).await;
    usage["periods"].as_array().unwrap().last().cloned().unwrap_or_default()
}
