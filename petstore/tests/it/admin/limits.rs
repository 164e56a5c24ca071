//! Limits of an account and a key, as operators see them.

use std::time::Duration;

use petstore_testkit::{Role, TestShop, eventually};
use serde_json::json;
use tokio::time::sleep;

use super::api::operator;

#[tokio::test]
async fn the_limits_of_a_key_are_those_that_its_usage_shows() {
    for (bans, with_strikes) in [("on", 30), ("off", 0)] {
        let shop = TestShop::open_with(&["--bans", bans]).await;
        let boss = shop.admin().with_header("authorization", &operator(&shop, "boss", Role::Admin).await);
        boss.post("/admin/v1/accounts", &json!({ "name": "shop", "plan": "free" })).await.assert_status(201);
        let issued = boss.post("/admin/v1/accounts/shop/keys", &json!({})).await.assert_status(201).json();
        let key = issued["key"]["id"].as_str().unwrap();
        let client = shop.anonymous().with_key(issued["apiKey"].as_str().unwrap());
        let shows = async |strikes: u64, has_ban: bool| {
            eventually(Duration::from_secs(10), async || {
                let limits = boss.get(&format!("/admin/v1/accounts/shop/limits?keyId={key}")).await;
                let limits = limits.assert_status(200).json();
                if (&limits["strikes"], limits["ban"].is_object()) != (&json!(strikes), has_ban) {
                    return Err(format!("{limits}"));
                }
                // Not before, and not more often, because usage has a limit of its own.
                let mut usage = client.get("/v1/usage").await.assert_status(200).json();
                let shared = |name: &String| !matches!(name.as_str(), "plan" | "key" | "days");
                usage.as_object_mut().unwrap().retain(|name, _| shared(name));
                if usage == limits {
                    return Ok(());
                }
                sleep(Duration::from_millis(200)).await;
                Err(format!("{limits} instead of {usage}"))
            })
            .await;
        };
        client.sends(61, "/v1/pets").await.last().unwrap().assert_error(429, "RATE_LIMITED");
        shop.advance(Duration::from_secs(1));
        client.sends(30, "/v1/pets").await.last().unwrap().assert_error(429, "RATE_LIMITED");
        shows(with_strikes, false).await;
        let ban = format!("/admin/v1/keys/{key}/ban");
        boss.post(&ban, &json!({ "duration": "1h" })).await.assert_status(201);
        shows(0, bans == "on").await;
        boss.send("DELETE", &ban, &[], "").await.assert_status(200);
        shows(0, false).await;
    }
}
