//! Rate limits by plan.

use std::time::Duration;

use petstore_testkit::{Plan, Rate, TestShop};
use serde_json::json;

use crate::keys::within_five_seconds;

const MINUTE: Duration = Duration::from_mins(1);

/// Header field of a body that the service does not accept.
const PLAIN: [(&str, &str); 1] = [("content-type", "text/plain")];

#[tokio::test]
async fn the_sixty_first_request_of_a_free_account_is_refused_until_the_reset() {
    let shop = TestShop::open().await;
    let client = shop.client_on(Plan::Free).await;
    let first = client.sends(60, "/v1/pets").await;
    assert!(first.iter().all(|answer| answer.status() == 200), "{first:?}");
    shop.advance(Duration::from_secs(18));
    let refused = client.get("/v1/pets").await;
    refused.assert_error(429, "RATE_LIMITED");
    assert_eq!(refused.retry_after(), 42, "{refused:?}");
    assert_eq!(refused.rate(), Rate { limit: 60, remaining: 0, reset: shop.unix_secs() + 42 }, "{refused:?}");
    shop.advance(Duration::from_millis(41_999));
    client.get("/v1/pets").await.assert_error(429, "RATE_LIMITED");
    shop.advance(Duration::from_millis(1));
    let admitted = client.get("/v1/pets").await;
    admitted.assert_status(200);
    assert_eq!(
        admitted.rate(),
        Rate { limit: 60, remaining: 59, reset: shop.unix_secs() + 60 },
        "{admitted:?}"
    );
}

#[tokio::test]
async fn every_plan_has_its_own_limits() {
    let shop = TestShop::open().await;
    for (plan, minute, day) in
        [(Plan::Free, 60, 1_000), (Plan::Pro, 300, 10_000), (Plan::Business, 1_000, 100_000)]
    {
        let answer = shop.client_on(plan).await.get("/v1/pets").await;
        assert_eq!(
            answer.rate(),
            Rate { limit: minute, remaining: minute - 1, reset: shop.unix_secs() + 60 },
            "{plan:?} {answer:?}"
        );
        let policy = format!(r#""minute";q={minute};w=60, "day";q={day};w=86400"#);
        assert_eq!(answer.header("ratelimit-policy"), policy, "{answer:?}");
    }
}

#[tokio::test]
async fn the_message_of_a_refusal_names_limit_window_and_reset() {
    let shop = TestShop::open_at("2026-11-20T10:00:00Z").await;
    let minute = shop.client_with(2, 100).await;
    minute.sends(2, "/v1/pets").await;
    let answer = minute.get("/v1/pets").await;
    answer.assert_error(429, "RATE_LIMITED");
    for part in ["2 ", "minute", "2026-11-20T10:01:00Z"] {
        assert!(answer.message().contains(part), "{part}: {answer:?}");
    }
    let day = shop.client_with(100, 2).await;
    day.sends(2, "/v1/pets").await;
    let answer = day.get("/v1/pets").await;
    answer.assert_error(429, "QUOTA_EXCEEDED");
    for part in ["2 ", "day", "2026-11-21T00:00:00Z"] {
        assert!(answer.message().contains(part), "{part}: {answer:?}");
    }
}

#[tokio::test]
async fn the_ietf_fields_show_both_windows_and_a_refusal_counts_in_neither() {
    let shop = TestShop::open_at("2026-11-20T10:00:00Z").await;
    let client = shop.client_on(Plan::Free).await;
    let first = client.get("/v1/pets").await;
    assert_eq!(first.header("ratelimit-policy"), r#""minute";q=60;w=60, "day";q=1000;w=86400"#, "{first:?}");
    assert_eq!(first.header("ratelimit"), r#""minute";r=59;t=60, "day";r=999;t=50400"#, "{first:?}");
    client.sends(59, "/v1/pets").await;
    client.sends(30, "/v1/pets").await; // refused
    let refused = client.get("/v1/pets").await;
    refused.assert_error(429, "RATE_LIMITED");
    assert_eq!(refused.header("ratelimit"), r#""minute";r=0;t=60, "day";r=940;t=50400"#, "{refused:?}");
    shop.advance(MINUTE);
    let next = client.get("/v1/pets").await;
    assert_eq!(next.header("ratelimit"), r#""minute";r=59;t=60, "day";r=939;t=50340"#, "{next:?}");
}

#[tokio::test]
async fn every_request_with_a_valid_key_counts_one_whatever_its_outcome() {
    let shop = TestShop::open().await;
    let client = shop.client_on(Plan::Free).await;
    let requests = [
        ("GET", "/v1/pets", [].as_slice(), "", 200),
        ("HEAD", "/v1/pets", &[], "", 200),
        ("POST", "/v1/pets", &[], r#"{"name":"Rex","categoryId":1}"#, 201),
        ("POST", "/v1/pets", &[], "{", 400),
        ("POST", "/v1/pets", &PLAIN, "", 415),
        ("GET", "/v1/pets?limit=0", &[], "", 400),
        ("GET", "/v1/pets/99", &[], "", 404),
        ("GET", "/v1/nothing", &[], "", 404),
        ("DELETE", "/v1/pets", &[], "", 405),
    ];
    for (count, (method, path, fields, body, status)) in (1..).zip(requests) {
        let answer = client.send(method, path, fields, body).await;
        assert_eq!(
            (answer.status(), answer.rate().remaining),
            (status, 60 - count),
            "{method} {path}: {answer:?}"
        );
    }
}

#[tokio::test]
async fn a_request_over_the_limit_is_refused_before_it_is_validated() {
    let shop = TestShop::open().await;
    let client = shop.client_with(1, 100).await;
    client.get("/v1/pets").await.assert_status(200);
    for (method, path) in
        [("GET", "/v1/nothing"), ("DELETE", "/v1/pets"), ("GET", "/v1/pets?limit=0"), ("GET", "/v1")]
    {
        client.send(method, path, &[], "").await.assert_error(429, "RATE_LIMITED");
    }
    let post = client.post("/v1/pets", &json!({"name": "Rex", "categoryId": 1})).await;
    post.assert_error(429, "RATE_LIMITED");
    let head = client.send("HEAD", "/v1/pets", &[], "").await;
    assert_eq!((head.status(), head.body(), head.rate().remaining), (429, b"".as_slice(), 0), "{head:?}");
    assert_eq!(head.retry_after(), 60, "{head:?}");
}

#[tokio::test]
async fn a_higher_plan_acts_in_the_running_window_within_five_seconds() {
    let shop = TestShop::open().await;
    let account = shop.account_on(Plan::Free).await;
    let client = shop.client_of(&account).await;
    client.sends(60, "/v1/pets").await;
    client.get("/v1/pets").await.assert_error(429, "RATE_LIMITED");
    shop.set_plan(&account, Plan::Pro).await;
    let admitted = within_five_seconds(&client, |answer| answer.status() == 200).await;
    let Rate { limit, remaining, .. } = admitted.rate();
    assert_eq!((limit, remaining), (300, 300 - 61), "{admitted:?}"); // used requests stay used
}
