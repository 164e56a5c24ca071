//! Authentication of callers: `Authorization: Bearer <API_KEY>`.

use std::time::Duration;

use petstore_caller::api_key::{ApiKey, Environment};
use petstore_testkit::{Answer, Plan, TestShop, raw};
use serde_json::json;

use super::within_five_seconds;

const MISSING: &str = r#"Bearer realm="petstore""#;
const REFUSED: &str = r#"Bearer realm="petstore", error="invalid_token""#;

#[tokio::test]
async fn a_request_without_a_bearer_credential_is_refused_as_missing_a_key() {
    let shop = TestShop::open().await;
    let client = shop.anonymous();
    for fields in [
        [].as_slice(),
        &[("authorization", "")],
        &[("authorization", "Basic dXNlcjpwYXNz")],
        &[("authorization", "Digest x")],
        &[("authorization", "Bearerx pet_live_")],
    ] {
        let answer = client.send("GET", "/v1/pets", fields, "").await;
        answer.assert_error(401, "MISSING_API_KEY");
        assert_eq!(answer.header("www-authenticate"), MISSING, "{fields:?}: {answer:?}");
    }
}

#[tokio::test]
async fn a_key_outside_the_authorization_field_is_ignored() {
    let shop = TestShop::open().await;
    let client = shop.client_on(Plan::Free).await;
    let (key, anonymous) = (client.key(), shop.anonymous());
    for name in ["api_key", "access_token", "key", "apikey", "authorization"] {
        anonymous.get(&format!("/v1/pets?{name}={key}")).await.assert_error(401, "MISSING_API_KEY");
    }
    for (name, value) in [
        ("x-api-key", key.to_owned()),
        ("cookie", format!("api_key={key}; Authorization=Bearer {key}")),
        ("proxy-authorization", format!("Bearer {key}")),
        ("x-authorization", format!("Bearer {key}")),
    ] {
        let answer = anonymous.send("GET", "/v1/pets", &[(name, &value)], "").await;
        answer.assert_error(401, "MISSING_API_KEY");
    }
}

#[tokio::test]
async fn authentication_comes_before_route_method_media_type_and_body() {
    let shop = TestShop::open().await;
    let client = shop.anonymous();
    for (method, path) in [
        ("GET", "/v1/nothing"),
        ("DELETE", "/v1/pets"),
        ("POST", "/v1/pets"),
        ("GET", "/v1"),
        ("GET", "/v1/pets?limit=0"),
    ] {
        let answer = client.send(method, path, &[("content-type", "text/plain")], "x".repeat(66_000)).await;
        assert_eq!(answer.status(), 401, "{method} {path}: {answer:?}");
        answer.assert_error(401, "MISSING_API_KEY");
    }
}

#[tokio::test]
async fn a_request_without_a_key_gets_no_100_continue() {
    let shop = TestShop::open().await;
    let address = shop.anonymous().address();
    let request = format!(
        "POST /v1/pets HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
         Content-Length: 50\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n"
    );
    raw::answer(&raw::exchange(address, request.as_bytes()).await).assert_error(401, "MISSING_API_KEY");
}

#[tokio::test]
async fn neither_environment_takes_the_others_keys() {
    let production = TestShop::open().await;
    let staging = TestShop::open_with(&["--environment", "staging"]).await;
    let live = production.client_on(Plan::Free).await;
    let test = staging.client_on(Plan::Free).await;
    assert!(live.key().starts_with("pet_live_") && test.key().starts_with("pet_test_"));
    live.get("/v1/pets").await.assert_status(200);
    test.get("/v1/pets").await.assert_status(200);
    production.anonymous().with_key(test.key()).get("/v1/pets").await.assert_error(401, "INVALID_API_KEY");
    staging.anonymous().with_key(live.key()).get("/v1/pets").await.assert_error(401, "INVALID_API_KEY");
}

#[tokio::test]
async fn the_answer_to_a_guess_does_not_depend_on_a_matching_prefix() {
    let shop = TestShop::open().await;
    let client = shop.client_on(Plan::Free).await;
    let mut near = client.key().to_owned();
    near.replace_range(44..45, if near.ends_with('0') { "1" } else { "0" });
    let bodies: Vec<_> = [near.as_str(), "x", ApiKey::generate(Environment::Production).expose()]
        .map(|guess| shop.anonymous().with_key(guess))
        .into_iter()
        .collect();
    let mut answers = Vec::new();
    for client in &bodies {
        answers.push(client.get("/v1/pets").await.json());
    }
    assert!(answers.windows(2).all(|pair| pair[0] == pair[1]), "{answers:?}");
}

#[tokio::test]
async fn a_revoked_key_is_refused_as_revoked_within_five_seconds() {
    let shop = TestShop::open().await;
    let account = shop.account_on(Plan::Business).await;
    let (kept, revoked) = (shop.client_of(&account).await, shop.client_of(&account).await);
    revoked.get("/v1/pets").await.assert_status(200);
    shop.revoke(&revoked).await;
    let answer = within_five_seconds(&revoked, is_refused).await;
    answer.assert_error(401, "API_KEY_REVOKED");
    assert_eq!(answer.header("www-authenticate"), REFUSED, "{answer:?}");
    kept.get("/v1/pets").await.assert_status(200);
}

#[tokio::test]
async fn all_keys_of_a_suspended_account_are_refused_within_five_seconds_until_it_is_resumed() {
    let shop = TestShop::open().await;
    let (account, other) = (shop.account_on(Plan::Business).await, shop.client_on(Plan::Business).await);
    let (first, second) = (shop.client_of(&account).await, shop.client_of(&account).await);
    let revoked = shop.client_of(&account).await;
    shop.revoke(&revoked).await;
    first.get("/v1/pets").await.assert_status(200);
    shop.suspend(&account, "the invoice of October is open").await;
    let answer = within_five_seconds(&first, is_refused).await;
    answer.assert_error(403, "ACCOUNT_SUSPENDED");
    let expected = "the operator has suspended the account: the invoice of October is open";
    assert_eq!(answer.json()["message"], expected, "{answer:?}");
    assert!(!answer.headers().contains_key("www-authenticate"), "the key is right: {answer:?}");
    second.get("/v1/usage").await.assert_error(403, "ACCOUNT_SUSPENDED");
    revoked.get("/v1/pets").await.assert_error(401, "API_KEY_REVOKED");
    other.get("/v1/pets").await.assert_status(200);
    shop.resume(&account).await;
    within_five_seconds(&first, |answer| answer.status() == 200).await;
    second.get("/v1/pets").await.assert_status(200);
}

#[tokio::test]
async fn a_key_revoked_before_its_first_use_is_refused_as_revoked() {
    let shop = TestShop::open().await;
    let client = shop.client_on(Plan::Free).await;
    shop.revoke(&client).await;
    client.get("/v1/pets").await.assert_error(401, "API_KEY_REVOKED");
}

#[tokio::test]
async fn a_rotated_key_works_beside_its_successor_until_the_grace_period_ends() {
    let shop = TestShop::open().await;
    let account = shop.account_on(Plan::Business).await;
    let old = shop.client_of(&account).await;
    old.get("/v1/pets").await.assert_status(200);
    let new = shop.rotate(&old, Duration::from_hours(1)).await;
    new.get("/v1/pets").await.assert_status(200);
    shop.advance(Duration::from_secs(3_599));
    old.get("/v1/pets").await.assert_status(200);
    shop.advance(Duration::from_secs(1));
    within_five_seconds(&old, is_refused).await.assert_error(401, "API_KEY_EXPIRED");
    new.get("/v1/pets").await.assert_status(200);
}

#[tokio::test]
async fn a_refused_request_changes_nothing() {
    let shop = TestShop::open().await;
    shop.anonymous().post("/v1/pets", &json!({"name": "Rex", "categoryId": 1})).await.assert_status(401);
    assert_eq!(shop.client_on(Plan::Free).await.get("/v1/pets").await.text(), "[]");
}

fn is_refused(answer: &Answer) -> bool {
    [401, 403].contains(&answer.status())
}
