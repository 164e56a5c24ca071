//! The admin API on a gateway's admin port.

use std::time::Duration;

use petstore_testkit::{Answer, Client, Plan, Role, TestShop, eventually};
use serde_json::json;

const TOKEN: (&str, &str) = ("authorization", "Bearer pet_op_0000000000000000000000000000000000");

/// Sends a request without a token.
pub(super) async fn send_without_token(admin: &Client, method: &str, path: &str) -> Answer {
    admin.send(method, path, &[], "").await
}

#[tokio::test]
async fn without_a_valid_token_every_admin_operation_is_refused() {
    let shop = TestShop::open().await;
    let admin = shop.admin();
    for (method, path) in [
        ("GET", "/admin/v1/accounts"),
        ("POST", "/admin/v1/accounts/shop/suspend"),
        ("GET", "/admin/v1/accounts/shop/limits"),
        ("POST", "/admin/v1/keys/00000000-0000-0000-0000-000000000000/rotate"),
        ("DELETE", "/admin/v1/keys/00000000-0000-0000-0000-000000000000/ban"),
        ("GET", "/admin/v1/operators/current"),
    ] {
        let refused = send_without_token(&admin, method, path).await;
        refused.assert_error_body(401, "INVALID_OPERATOR_TOKEN");
        assert_eq!(refused.header("www-authenticate"), r#"Bearer realm="petstore-admin""#);
        assert_eq!(refused.header("cache-control"), "no-store");
    }
    for open in ["/livez", "/readyz", "/metrics", "/admin/v1/openapi.json"] {
        admin.get(open).await.assert_status(200);
    }
}

#[tokio::test]
async fn a_body_without_a_field_that_the_document_requires_is_refused() {
    let shop = TestShop::open().await;
    let boss = shop.admin().with_header("authorization", &operator(&shop, "boss", Role::Admin).await);
    let document = boss.get("/admin/v1/openapi.json").await.json();
    let mut required = Vec::new();
    for (path, body) in [
        ("/admin/v1/accounts", json!({"name": "acme", "plan": "free"})),
        ("/admin/v1/operators", json!({"name": "eve", "role": "viewer"})),
    ] {
        let described = &document["paths"][path]["post"]["requestBody"];
        assert_eq!(described["required"], true, "{described}");
        let schema = &described["content"]["application/json"]["schema"];
        for name in schema["required"].as_array().unwrap() {
            let name = name.as_str().unwrap();
            let mut partial = body.clone();
            partial.as_object_mut().unwrap().remove(name);
            let refused = boss.post(path, &partial).await;
            assert_eq!(refused.status(), 400, "{refused:?}");
            assert!(refused.message().starts_with(name), "{refused:?}");
            required.push(name);
        }
        boss.post(path, &body).await.assert_status(201);
    }
    assert_eq!(required, ["name", "plan", "name", "role"]);
    let change = &document["paths"]["/admin/v1/accounts/{account}"]["patch"]["requestBody"];
    assert!(change["content"]["application/json"]["schema"].get("required").is_none(), "{change}");
}

#[tokio::test]
async fn the_admin_api_is_not_on_the_public_port() {
    let shop = TestShop::open().await;
    let client = shop.client_on(Plan::Free).await;
    for path in ["/admin/v1/accounts", "/admin/v1/openapi.json", "/admin/v1"] {
        client.get(path).await.assert_error_body(404, "ROUTE_NOT_FOUND");
    }
}

#[tokio::test]
async fn unknown_paths_and_methods_are_errors_as_on_the_public_port() {
    let shop = TestShop::open().await;
    let admin = shop.admin();
    send_without_token(&admin, "GET", "/admin/v1/nothing").await.assert_error_body(404, "ROUTE_NOT_FOUND");
    let refused = send_without_token(&admin, "PUT", "/admin/v1/accounts").await;
    refused.assert_error_body(405, "METHOD_NOT_ALLOWED");
    assert_eq!(refused.header("allow"), "POST,GET,HEAD");
    let refused = admin.send("GET", "/admin/v1/accounts?plan=gold", &[TOKEN], "").await;
    refused.assert_error_body(400, "INVALID_PARAMETER");
    assert_eq!(refused.message(), "plan must be one of free, pro, business, enterprise");
    let boss = admin.with_header("authorization", &operator(&shop, "boss", Role::Admin).await);
    let refused = boss.get("/admin/v1/accounts?pageSize=-1").await;
    refused.assert_error_body(400, "INVALID_PARAMETER");
    assert!(refused.message().starts_with("pageSize must"), "{refused:?}");
}

#[tokio::test]
async fn an_integer_parameter_has_one_form_as_on_the_public_port() {
    let shop = TestShop::open().await;
    let boss = shop.admin().with_header("authorization", &operator(&shop, "boss", Role::Admin).await);
    let client = shop.client_on(Plan::Pro).await;
    for digits in ["%2B5", "+5", "007", "05", "-0", "5%20", "5.0", "5e0", "", "99999999999999999999"] {
        client.get(&format!("/v1/pets?limit={digits}")).await.assert_error(400, "INVALID_PARAMETER");
        for path in ["accounts?pageSize", "overview?minutes", "deprecated-use?days"] {
            let refused = boss.get(&format!("/admin/v1/{path}={digits}")).await;
            refused.assert_error_body(400, "INVALID_PARAMETER");
        }
    }
    boss.get("/admin/v1/accounts?pageSize=%35").await.assert_status(200);
}

/// Returns an operator's token, as a header field.
pub(super) async fn operator(shop: &TestShop, name: &str, role: Role) -> String {
    format!("Bearer {}", shop.operator_token(name, role).await)
}

/// Waits for an answer with this status. A change reaches every gateway within five seconds; a busy machine
/// may take longer.
async fn answers_in_time(client: &Client, status: u16) {
    eventually(Duration::from_secs(10), async || match client.get("/v1/pets").await.status() {
        seen if seen == status => Ok(()),
        seen => Err(seen.to_string()),
    })
    .await;
}

#[tokio::test]
async fn an_operator_finds_the_cause_of_a_refusal_and_raises_the_plan() {
    let shop = TestShop::open().await;
    let boss = shop.admin().with_header("authorization", &operator(&shop, "boss", Role::Admin).await);
    let created = boss.post("/admin/v1/accounts", &json!({ "name": "shop", "plan": "free" })).await;
    let account = created.assert_status(201).json();
    assert_eq!((&account["name"], &account["plan"]), (&json!("shop"), &json!("free")));
    assert_eq!(account["limits"], json!({ "perMinute": 60, "perDay": 1_000 }));
    let again = boss.post("/admin/v1/accounts", &json!({ "name": "shop", "plan": "free" })).await;
    again.assert_error_body(409, "ACCOUNT_EXISTS");

    let created = boss.post("/admin/v1/accounts/shop/keys", &json!({ "label": "till" })).await;
    let issued = created.assert_status(201).json();
    let client = shop.anonymous().with_key(issued["apiKey"].as_str().unwrap());
    client.sends(61, "/v1/pets").await.last().unwrap().assert_error(429, "RATE_LIMITED");

    let limits = boss.get("/admin/v1/accounts/shop/limits").await.assert_status(200).json();
    assert_eq!((&limits["minute"]["used"], &limits["minute"]["remaining"]), (&json!(60), &json!(0)));
    let changed = boss.send("PATCH", "/admin/v1/accounts/shop", &[], r#"{"plan":"pro"}"#).await;
    assert_eq!(changed.assert_status(200).json()["plan"], "pro");
    answers_in_time(&client, 200).await;

    let key = issued["key"]["id"].as_str().unwrap();
    let ban = json!({ "reason": "too eager", "duration": "1h" });
    let banned = boss.post(&format!("/admin/v1/keys/{key}/ban"), &ban).await.assert_status(201).json();
    assert_eq!((&banned["account"], &banned["origin"]), (&json!("shop"), &json!("operator")));
    answers_in_time(&client, 429).await;
    let shown = boss.get(&format!("/admin/v1/accounts/shop/limits?keyId={key}")).await.json();
    assert!(shown["ban"]["until"].is_string(), "{shown}");
    boss.send("DELETE", &format!("/admin/v1/keys/{key}/ban"), &[], "").await.assert_status(200);
    answers_in_time(&client, 200).await;

    let events = boss.get("/admin/v1/audit-events?account=shop").await.assert_status(200).json();
    let actions: Vec<_> = events["events"].as_array().unwrap().iter().map(|event| &event["action"]).collect();
    assert_eq!(actions, ["LiftBan", "CreateBan", "UpdateAccount", "CreateKey", "CreateAccount"]);
    assert_eq!(events["events"][0]["operator"], "boss");
    assert_eq!(events["events"][0]["clientAddress"], "127.0.0.1");
    assert!(!events.to_string().contains(issued["apiKey"].as_str().unwrap()));
}

#[tokio::test]
async fn every_answer_names_its_request() {
    let shop = TestShop::open().await;
    let admin = shop.admin();
    for (method, path, status) in [
        ("GET", "/admin/v1/bans", 401),
        ("GET", "/admin/v1/nothing", 404),
        ("PUT", "/admin/v1/bans", 405),
        ("GET", "/admin/v1/openapi.json", 200),
        ("POST", "/console/session", 403),
    ] {
        let own = admin.send(method, path, &[("x-request-id", "desk-0001")], "").await;
        assert_eq!((own.status(), own.header("x-request-id")), (status, "desk-0001"), "{path}");
        let named = admin.send(method, path, &[], "").await;
        assert_eq!(named.header("x-request-id").len(), 36, "{path}");
    }
}
