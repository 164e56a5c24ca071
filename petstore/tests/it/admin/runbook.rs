//! The operator's guide, "Why was an account refused in the last hour?", followed with only the means that it
//! names: the log, the metrics and the operator's commands.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use petstore_testkit::eventually;
use serde_json::{Value, json};

use super::begin_within_one_day;
use crate::{ACCOUNT, PORTS, key_of_new_account, only_key_id, petstore};

/// Timeout of the log and of reports, which are written a few seconds later.
const REPORT_TIMEOUT: Duration = Duration::from_secs(20);

#[tokio::test]
async fn the_guide_leads_an_operator_to_the_cause_of_a_refusal() {
    let installation = petstore();
    let server =
        installation.start(&[["serve"].as_slice(), &PORTS, &["--log-format", "json"]].concat()).await;
    let key = key_of_new_account(&installation).await;
    let key_id = only_key_id(&installation, ACCOUNT).await;
    let client = server.client(&key);
    begin_within_one_day().await;
    let opened = Instant::now(); // the account's minute begins now, or shortly after
    client.post("/v1/pets", &json!({"name": ""})).await.assert_error(400, "VALIDATION_FAILED");
    client.sends(59, "/v1/pets").await;
    for _ in 0..2 {
        client.get("/v1/pets").await.assert_error(429, "RATE_LIMITED");
    }
    installation.json(&["key", "revoke", &key_id]).await;
    eventually(REPORT_TIMEOUT, async || match client.get("/v1/pets").await {
        revoked if revoked.status() == 401 => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;

    // 1. Its limits and its usage. Windows and days belong to the account, even if its key changes.
    let token = installation.read("data/first-operator-token");
    let admin = server.admin().with_header("authorization", &format!("Bearer {}", token.trim()));
    eventually(REPORT_TIMEOUT, async || {
        let usage = installation.json(&["usage", "--account", ACCOUNT]).await;
        let today = usage["periods"].as_array().and_then(|periods| periods.last());
        match today.and_then(|today| today["counts"]["refused"].as_u64()) {
            Some(2..) => Ok(()),
            _ => Err(usage.to_string()),
        }
    })
    .await;
    let shown = installation.json(&["account", "show", ACCOUNT]).await;
    assert_eq!(shown["plan"], "free", "{shown}");
    let limits = admin.get(&format!("/admin/v1/accounts/{ACCOUNT}/limits")).await.assert_status(200).json();
    assert!(limits["day"]["used"].as_u64() >= Some(60), "{limits}");
    if opened.elapsed() < Duration::from_mins(1) {
        assert_eq!(limits["minute"]["used"], 60, "{limits}");
    }

    // 2. Each request: its code, its key, its address.
    let accounts = installation.json(&["account", "list"]).await;
    let account =
        accounts["accounts"].as_array().unwrap().iter().find(|account| account["name"] == ACCOUNT).unwrap();
    let is_refused =
        |line: &Value| line["account_id"] == account["id"] && line["status"].as_u64() >= Some(400);
    let refused = eventually(REPORT_TIMEOUT, async || {
        let refused = lines(&server.stderr(), is_refused);
        let codes = codes(&refused);
        let is_logged = codes.get("RATE_LIMITED") >= Some(&2) && codes.get("VALIDATION_FAILED") == Some(&1);
        if is_logged { Ok(refused) } else { Err(format!("{codes:?}")) }
    })
    .await;
    assert!(
        refused.iter().all(|line| line["key_id"] == *key_id && line["client"] == "127.0.0.1"),
        "{refused:?}"
    );

    // 3. Without a valid key the line names no account: the address finds it, and the state of the key
    // explains it.
    let strangers = eventually(REPORT_TIMEOUT, async || {
        let is_401 = |line: &Value| line["status"] == 401 && line["client"] == "127.0.0.1";
        let strangers = lines(&server.stderr(), is_401);
        if strangers.is_empty() { Err(server.stderr()) } else { Ok(strangers) }
    })
    .await;
    assert_eq!(codes(&strangers).into_keys().collect::<Vec<_>>(), ["API_KEY_REVOKED"]);
    let keys = installation.json(&["key", "list", "--account", ACCOUNT]).await;
    assert_eq!(keys["keys"][0]["state"], "revoked", "{keys}");

    // 4. Number of refusals. The 401 was the last request, so that all lines before it are written.
    let metrics = server.admin().get("/metrics").await;
    let refused = lines(&server.stderr(), is_refused);
    let rate_limited = codes(&refused)["RATE_LIMITED"];
    let series = format!(
        "petstore_requests_total{{code=\"RATE_LIMITED\",operation=\"listPets\",plan=\"free\"}} {rate_limited}"
    );
    assert!(metrics.text().lines().any(|line| line == series), "{series} is not in {}", metrics.text());
    assert!(metrics.text().contains("petstore_redis_breaker_open 0"), "{}", metrics.text());
}

/// Returns the lines of the log about matching requests.
fn lines(log: &str, is_wanted: impl Fn(&Value) -> bool) -> Vec<Value> {
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter(|line| is_wanted(line)).collect()
}

/// Returns the count of each code in the lines.
fn codes(lines: &[Value]) -> BTreeMap<&str, usize> {
    let mut codes = BTreeMap::new();
    for code in lines.iter().filter_map(|line| line["code"].as_str()) {
        *codes.entry(code).or_default() += 1;
    }
    codes
}
