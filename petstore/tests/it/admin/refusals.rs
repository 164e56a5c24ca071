//! Explanations of refusals, for operators.

use std::time::Duration;

use petstore_core::accounts::AccountName;
use petstore_testkit::{Answer, Client, Plan, Role, TestShop, eventually};
use serde_json::{Value, json};

/// Returns an operator who reads on the admin port.
async fn viewer(shop: &TestShop) -> Client {
    let token = shop.operator_token("vera", Role::Viewer).await;
    shop.admin().with_header("authorization", &format!("Bearer {token}"))
}

/// Waits for an answer in which `is_there` holds. Gateways report every five seconds; a busy machine takes
/// longer.
async fn in_time(viewer: &Client, path: &str, mut is_there: impl FnMut(&Value) -> bool) -> Value {
    let mut body = Value::Null;
    eventually(Duration::from_secs(20), async || {
        body = viewer.get(path).await.assert_status(200).json();
        if is_there(&body) { Ok(()) } else { Err(body.to_string()) }
    })
    .await;
    body
}

/// Returns the only explanation of a refused request.
async fn explanation(viewer: &Client, refused: &Answer) -> Value {
    let path = format!("/admin/v1/refusals?requestId={}", refused.header("x-request-id"));
    let explanation = in_time(viewer, &path, |explanation| explanation["explanations"][0].is_object()).await;
    assert_eq!(explanation["explanations"].as_array().map(Vec::len), Some(1), "{explanation}");
    explanation["explanations"][0].clone()
}

#[tokio::test]
async fn an_explanation_has_the_windows_before_a_refusal_is_stored() {
    let shop = TestShop::open_at("2026-11-20T10:00:00Z").await;
    let viewer = viewer(&shop).await;
    let facts = async |account: &AccountName| {
        let path = format!("/admin/v1/refusals?account={account}");
        let facts = viewer.get(&path).await.assert_status(200).json();
        assert_eq!(facts["account"]["name"], account.as_str(), "{facts}");
        facts
    };
    let account = shop.account_on(Plan::Free).await;
    let client = shop.client_of(&account).await;
    let idle = facts(&account).await;
    assert_eq!((&idle["explanations"], &idle["limits"]["minute"]["used"]), (&json!([]), &json!(0)));

    // Every request is refused from now on: the windows say so before a refusal is stored.
    client.sends(60, "/v1/pets").await;
    client.get("/v1/pets").await.assert_error(429, "RATE_LIMITED");
    let used_up = facts(&account).await;
    assert_eq!(used_up["limits"]["minute"]["remaining"], 0, "{used_up}");
    assert_eq!(used_up["limits"]["minute"]["resetsAt"], "2026-11-20T10:01:00Z", "{used_up}");

    let daily = shop.client_with(60, 2).await;
    daily.sends(3, "/v1/pets").await;
    let named = viewer.get("/admin/v1/accounts?plan=enterprise").await.json()["accounts"][0]["name"].clone();
    let of_day = facts(&AccountName::parse(named.as_str().unwrap()).unwrap()).await;
    assert_eq!(of_day["limits"]["day"]["remaining"], 0, "{of_day}");
}

#[tokio::test]
async fn six_refusals_a_second_are_all_explained_and_so_is_the_ban_after_them() {
    let shop = TestShop::open_at("2026-11-20T10:00:00Z").await;
    let viewer = viewer(&shop).await;
    let account = shop.account_on(Plan::Free).await;
    let (first, second, third) =
        (shop.client_of(&account).await, shop.client_of(&account).await, shop.client_of(&account).await);
    first.sends(60, "/v1/pets").await;
    let mut refused = Vec::new();
    for _ in 0..32 {
        let answer = first.get("/v1/pets").await;
        answer.assert_error(429, "RATE_LIMITED");
        refused.push(answer.header("x-request-id").to_owned());
    }
    second.sends(20, "/v1/pets").await;
    shop.ban(&third, Duration::from_hours(1)).await;
    let banned = third.get("/v1/pets").await;
    banned.assert_error(429, "API_KEY_BANNED");
    assert_eq!(explanation(&viewer, &banned).await["cause"], "operator_ban");
    for id in refused {
        let explained = viewer.get(&format!("/admin/v1/refusals?requestId={id}")).await.json();
        assert_eq!(explained["explanations"][0]["lastRequestId"], id, "{explained}");
    }
}

#[tokio::test]
async fn refusals_are_explained_with_and_without_a_key() {
    let shop = TestShop::open().await;
    let (viewer, account) = (viewer(&shop).await, shop.account_on(Plan::Free).await);
    let (revoked, banned, suspended) =
        (shop.client_of(&account).await, shop.client_of(&account).await, shop.client_on(Plan::Pro).await);
    let reading = shop.client_reading(&account).await;
    let elsewhere = shop.client_bound_to(&account, &["192.0.2.1"]).await;
    shop.revoke(&revoked).await;
    shop.ban(&banned, Duration::from_hours(1)).await;
    let name = viewer.get("/admin/v1/accounts?plan=pro").await.json()["accounts"][0]["name"].clone();
    shop.suspend(&AccountName::parse(name.as_str().unwrap()).unwrap(), "open invoice").await;
    let invalid = shop.anonymous().with_key(&format!("pet_live_{}", "0".repeat(43)));
    let cases = [
        (revoked.get("/v1/pets").await, 401, "API_KEY_REVOKED", "key_revoked", true),
        (banned.get("/v1/pets").await, 429, "API_KEY_BANNED", "operator_ban", true),
        (suspended.get("/v1/pets").await, 403, "ACCOUNT_SUSPENDED", "account_suspended", false),
        (
            reading.send("PUT", "/v1/pets", &[], "").await,
            403,
            "INSUFFICIENT_SCOPE",
            "insufficient_scope",
            true,
        ),
        (elsewhere.get("/v1/pets").await, 403, "ADDRESS_NOT_ALLOWED", "address_not_allowed", true),
        (invalid.get("/v1/pets").await, 401, "INVALID_API_KEY", "invalid_key", false),
        (shop.anonymous().get("/v1/pets").await, 401, "MISSING_API_KEY", "missing_key", false),
    ];
    for (refused, status, code, cause, is_of_key) in cases {
        refused.assert_error(status, code);
        let explained = explanation(&viewer, &refused).await;
        assert_eq!((&explained["cause"], &explained["code"]), (&json!(cause), &json!(code)), "{explained}");
        assert_eq!(explained["keyId"] != "", is_of_key, "{explained}");
        let has_account = !["INVALID_API_KEY", "MISSING_API_KEY"].contains(&code);
        assert_eq!(explained["account"] != "", has_account, "{explained}");
        assert!(explained["remedy"].as_str().is_some_and(|remedy| remedy.ends_with('.')), "{explained}");
    }
    let everything = viewer.get(&format!("/admin/v1/refusals?account={account}")).await.json().to_string();
    assert!(
        !everything.contains(revoked.key()) && !everything.contains(&revoked.key()[10..30]),
        "{everything}"
    );
}

#[tokio::test]
async fn the_overview_and_usage_by_minute_include_the_last_requests() {
    let shop = TestShop::open_at("2026-11-20T10:00:00Z").await;
    let viewer = viewer(&shop).await;
    let client = shop.client_with(2, 1_000).await;
    client.sends(3, "/v1/pets").await;
    shop.advance(Duration::from_mins(1));
    client.get("/v1/nothing").await.assert_status(404);
    shop.anonymous().get("/v1/pets").await.assert_status(401);
    // The count and the reason of a request may be in two reports.
    let overview = in_time(&viewer, "/admin/v1/overview", |explained| {
        let counts = |minute: usize| &explained["minutes"][minute]["counts"];
        explained["refusals"].as_array().is_some_and(|it| it.len() == 2)
            && counts(58)["refused"] == 1
            && counts(59)["clientErrors"] == 2 // one of them without an account
    })
    .await;
    let minutes = overview["minutes"].as_array().unwrap();
    assert_eq!((minutes.len(), &minutes[59]["startTime"]), (60, &json!("2026-11-20T10:01:00Z")));
    let counts = |succeeded, client_errors, refused| {
        let mut counts = json!({ "succeeded": succeeded, "clientErrors": client_errors, "refused": refused });
        counts["serverErrors"] = json!(0);
        counts["getPet"] = json!(0);
        counts
    };
    assert_eq!(minutes[58]["counts"], counts(2, 0, 1), "{overview}");
    assert_eq!(minutes[59]["counts"], counts(0, 2, 0), "{overview}");
    let refusals = json!([
        { "cause": "minute_limit", "code": "RATE_LIMITED", "requests": 1 },
        { "cause": "missing_key", "code": "MISSING_API_KEY", "requests": 1 },
    ]);
    assert_eq!(overview["refusals"], refusals);
    let account = overview["refusedAccounts"][0]["account"].as_str().unwrap();
    assert_eq!(overview["refusedAccounts"], json!([{ "account": account, "requests": 1 }]));

    let by_key = format!("/admin/v1/accounts/{account}/usage?interval=minute&byKey=true");
    let usage = viewer.get(&by_key).await.assert_status(200).json();
    let keys = viewer.get(&format!("/admin/v1/accounts/{account}/keys")).await.json();
    let key = &keys["keys"][0]["id"];
    let period = |start: &str, counts: Value| {
        let mut period = json!({ "startTime": start, "account": account, "keyId": key });
        period["counts"] = counts;
        period
    };
    let periods =
        [period("2026-11-20T10:00:00Z", counts(2, 0, 1)), period("2026-11-20T10:01:00Z", counts(0, 1, 0))];
    assert_eq!(usage["periods"], json!(periods));
    let wrong = viewer.get("/admin/v1/usage?byKey=true").await;
    wrong.assert_error_body(400, "INVALID_PARAMETER");
}
