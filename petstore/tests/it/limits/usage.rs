//! `GET /v1/usage`: the usage of an account, as it sees it.

use std::time::Duration;

use petstore_testkit::{Answer, Client, Plan, Rate, TestShop};
use serde_json::{Value, json};

const MINUTE: Duration = Duration::from_mins(1);

#[tokio::test]
async fn an_account_sees_its_plan_its_windows_and_thirty_days() {
    let shop = TestShop::open_at("2026-11-20T10:00:00Z").await;
    let client = shop.client_on(Plan::Free).await;
    client.sends(3, "/v1/pets").await;
    let answer = usage(&client).await;
    let body = answer.json();
    assert_eq!(body["plan"], "free", "{answer:?}");
    assert_eq!(
        body["minute"],
        json!({"limit": 60, "used": 3, "remaining": 57, "resetsAt": "2026-11-20T10:01:00Z"}),
        "{answer:?}"
    );
    assert_eq!(
        body["day"],
        json!({"limit": 1_000, "used": 3, "remaining": 997, "resetsAt": "2026-11-21T00:00:00Z"}),
        "{answer:?}"
    );
    assert_eq!((&body["strikes"], body.get("ban")), (&json!(0), None), "{answer:?}");
    let dates: Vec<_> = days(&body).iter().map(|day| day["date"].as_str().unwrap()).collect();
    assert_eq!((dates.len(), dates[0], dates[29]), (30, "2026-11-20", "2026-10-22"), "{answer:?}");
}

#[tokio::test]
async fn requests_are_counted_by_day_and_status_class() {
    let shop = TestShop::open_at("2026-11-20T23:00:00Z").await;
    let client = shop.client_with(7, 1_000).await;
    client.post("/v1/pets", &json!({"name": "Rex", "categoryId": 1})).await.assert_status(201);
    client.get("/v1/pets/1").await.assert_status(200);
    client.send("HEAD", "/v1/pets/1", &[], "").await.assert_status(200);
    client.get("/v1/pets/x").await.assert_status(404);
    client.get("/v1/nothing").await.assert_status(404);
    client.get("/v1/pets?limit=0").await.assert_status(400);
    client.send("OPTIONS", "/v1/pets/1", &[], "").await.assert_status(204); // counts nothing
    usage(&client).await; // neither does this
    client.get("/v1/pets").await.assert_status(200);
    client.sends(2, "/v1/pets").await.last().unwrap().assert_status(429);
    let first = json!({
        "date": "2026-11-20", "requests": 9,
        "succeeded": 4, "clientErrors": 3, "rateLimited": 2, "serverErrors": 0, "deprecatedCalls": 3,
        "byStatus": {"2xx": 4, "4xx": 3, "429": 2, "5xx": 0}, "getPet": 3, // until 1.2.0
    });
    assert_eq!(days(&usage(&client).await.json())[0], first);

    shop.advance(Duration::from_hours(1));
    client.get("/v1/pets").await.assert_status(200);
    let body = usage(&client).await.json();
    assert_eq!((&days(&body)[0]["date"], &days(&body)[0]["requests"]), (&json!("2026-11-21"), &json!(1)));
    assert_eq!(days(&body)[1], first);
    assert!(days(&body)[2..].iter().all(|day| day["requests"] == 0), "{body}");

    let stranger = shop.client_on(Plan::Free).await;
    assert_eq!(days(&usage(&stranger).await.json())[0]["requests"], 0, "other accounts do not count");
}

#[tokio::test]
async fn reading_usage_uses_no_quota() {
    let shop = TestShop::open().await;
    let client = shop.client_with(2, 1_000).await;
    let reset = shop.unix_secs() + 60;
    assert_eq!(usage(&client).await.rate(), Rate { limit: 2, remaining: 2, reset });
    client.get("/v1/pets").await.assert_status(200);
    for _ in 0..5 {
        assert_eq!(usage(&client).await.rate(), Rate { limit: 2, remaining: 1, reset });
    }
    client.get("/v1/pets").await.assert_status(200);
    client.get("/v1/pets").await.assert_error(429, "RATE_LIMITED");
    let used_up = usage(&client).await;
    assert_eq!(used_up.rate(), Rate { limit: 2, remaining: 0, reset }, "{used_up:?}");
    assert_eq!(used_up.json()["refusedUntil"], "2026-11-20T10:01:00Z", "{used_up:?}");
    client.send("DELETE", "/v1/usage", &[], "").await.assert_error(405, "METHOD_NOT_ALLOWED");
    let head = client.send("HEAD", "/v1/usage", &[], "").await;
    assert_eq!((head.status(), head.body()), (200, b"".as_slice()), "{head:?}");
}

#[tokio::test]
async fn a_banned_key_may_read_its_usage_with_strikes_and_ban() {
    let shop = TestShop::open_at("2026-11-20T10:00:00Z").await;
    let client = shop.client_with(1, 1_000).await;
    client.sends(2, "/v1/pets").await;
    shop.advance(Duration::from_secs(1));
    client.sends(100, "/v1/pets").await;
    let struck = usage(&client).await.json();
    assert_eq!(
        (&struck["strikes"], &struck["strikesResetAt"]),
        (&json!(100), &json!("2026-11-20T10:10:01Z"))
    );
    client.get("/v1/pets").await.assert_error(429, "API_KEY_BANNED");
    let banned = usage(&client).await;
    let ban = json!({"from": "2026-11-20T10:00:01Z", "until": "2026-11-20T10:05:01Z"});
    assert_eq!((&banned.json()["ban"], &banned.json()["strikes"]), (&ban, &json!(0)), "{banned:?}");
    assert_eq!(banned.rate(), Rate { limit: 1, remaining: 0, reset: shop.unix_secs() + 300 }, "{banned:?}");
    assert_eq!(banned.find("retry-after"), None, "{banned:?}");
}

#[tokio::test]
async fn usage_has_a_limit_of_its_own_for_all_keys_of_the_account() {
    let shop = TestShop::open().await;
    let account = shop.account_on(Plan::Pro).await;
    let (one, other) = (shop.client_of(&account).await, shop.client_of(&account).await);
    for client in [&one, &other] {
        let answers = client.sends(30, "/v1/usage").await;
        assert!(answers.iter().all(|answer| answer.status() == 200), "{:?}", answers.last());
    }
    let refused = one.get("/v1/usage").await;
    refused.assert_error(429, "RATE_LIMITED");
    let reset = shop.unix_secs() + 60;
    assert_eq!(refused.rate(), Rate { limit: 60, remaining: 0, reset }, "{refused:?}");
    assert_eq!((refused.retry_after(), refused.header("x-stability")), (60, "beta"), "{refused:?}");
    assert_eq!(one.get("/v1/pets").await.assert_status(200).rate().remaining, 299);
    shop.advance(MINUTE);
    usage(&one).await;
}

/// Returns the answer, which must say that the operation may change.
async fn usage(client: &Client) -> Answer {
    let answer = client.get("/v1/usage").await;
    answer.assert_status(200);
    assert_eq!(answer.header("x-stability"), "beta", "{answer:?}");
    answer
}

fn days(body: &Value) -> &[Value] {
    body["days"].as_array().expect("days")
}
