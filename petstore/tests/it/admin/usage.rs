//! Usage, as operators see it.

use petstore_testkit::{Answer, Installation, eventually};
use serde_json::{Value, json};

use super::{REPORT_TIMEOUT, begin_within_one_day};
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
