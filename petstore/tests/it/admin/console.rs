//! The operator console on a gateway's admin port. `testing/browser` drives it in a browser.

use petstore_testkit::{Answer, Client, Plan, Role, TestShop};
use serde_json::json;

/// Header field that the console's own pages send.
const OF_CONSOLE: (&str, &str) = ("petstore-console", "1");

/// Returns a browser at the admin port, signed in with that token. It has the cookie.
async fn signed_in(shop: &TestShop, token: &str) -> Client {
    let answer = sign_in(shop, token).await;
    answer.assert_status(200);
    with_cookie(&shop.admin(), &answer)
}

/// Returns that browser at another admin port, as if every gateway were at one address: the cookie's name has
/// its port.
fn with_cookie(admin: &Client, signed_in: &Answer) -> Client {
    let cookie = signed_in.header("set-cookie").split(';').next().unwrap();
    let (_, token) = cookie.split_once('=').unwrap();
    let cookie = format!("petstore-console{}={token}", admin.address().port());
    admin.with_header(OF_CONSOLE.0, OF_CONSOLE.1).with_header("cookie", &cookie)
}

/// Checks for an Error without the rate limit headers that are `/v1`'s.
#[track_caller]
fn assert_refused(answer: &Answer, status: u16, code: &str) {
    answer.assert_status(status);
    assert_eq!(
        (&answer.json()["code"], &answer.json()["status"]),
        (&json!(code), &json!(status)),
        "{answer:?}"
    );
}

async fn sign_in(shop: &TestShop, token: &str) -> Answer {
    let body = json!({ "token": token }).to_string();
    shop.admin().send("POST", "/console/session", &[OF_CONSOLE], body).await
}

#[tokio::test]
async fn the_console_is_on_the_admin_port_alone_and_loads_nothing_from_elsewhere() {
    let shop = TestShop::open().await;
    let client = shop.client_on(Plan::Free).await;
    for path in ["/console", "/console/accounts/shop", "/console/assets/main.mjs"] {
        let page = shop.admin().get(path).await;
        page.assert_status(200);
        let policy = page.header("content-security-policy");
        assert!(policy.starts_with("default-src 'none'; ") && !policy.contains(['*', ':', '.']), "{page:?}");
        assert_refused(&client.get(path).await, 404, "ROUTE_NOT_FOUND");
    }
    assert_refused(&client.get("/console/session").await, 404, "ROUTE_NOT_FOUND");
}

#[tokio::test]
async fn the_audit_has_name_and_address_of_the_consoles_operator() {
    let shop = TestShop::open().await;
    let token = shop.operator_token("anna", Role::Admin).await;
    let console = signed_in(&shop, &token).await;
    let account = json!({ "name": "zoo", "plan": "free" });
    console.post("/console/api/accounts", &account).await.assert_status(201);
    let changed = console.send("PATCH", "/console/api/accounts/zoo", &[], r#"{"plan":"pro"}"#).await;
    assert_eq!(changed.assert_status(200).json()["limits"], json!({ "perMinute": 300, "perDay": 10_000 }));

    let events = console.get("/console/api/audit-events?account=zoo").await.json();
    let event = &events["events"][0];
    assert_eq!((&event["action"], &event["operator"]), (&json!("UpdateAccount"), &json!("anna")));
    assert_eq!(event["clientAddress"], "127.0.0.1");
}

#[tokio::test]
async fn a_session_holds_on_every_gateway_until_the_operator_signs_out_on_one() {
    let shop = TestShop::open_apart(2).await;
    let token = shop.operator_token("anna", Role::Admin).await;
    let answer = sign_in(&shop, &token).await;
    let [first, second]: [Client; 2] =
        shop.admins().iter().map(|admin| with_cookie(admin, &answer)).collect::<Vec<_>>().try_into().unwrap();
    second.post("/console/api/accounts", &json!({ "name": "zoo", "plan": "free" })).await.assert_status(201);
    first.get("/console/api/accounts/zoo").await.assert_status(200);

    let out = second.send("DELETE", "/console/session", &[], "").await;
    assert!(out.assert_status(204).header("set-cookie").contains("Max-Age=0"), "{out:?}");
    for gateway in [first, second] {
        let refused = gateway.get("/console/api/accounts").await;
        assert_refused(&refused, 401, "INVALID_OPERATOR_TOKEN");
    }
}
