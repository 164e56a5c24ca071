//! Usage, as operators see it.

use petstore_testkit::{Installation, eventually};
use serde_json::{Value, json};

use super::{REPORT_TIMEOUT, begin_within_one_day};
use crate::{ACCOUNT, key_of_new_account, petstore, serve};

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
    assert!(text.stderr.contains("the state of the limits is on the gateways"), "{text:?}");
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

async fn today(installation: &Installation) -> Value {
    let usage = installation.json(&["usage", "--account", ACCOUNT]).await;
    usage["periods"].as_array().unwrap().last().cloned().unwrap_or_default()
}
