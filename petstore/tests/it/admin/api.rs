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
    assert_eq!(refused.header("allow"), "POST, GET, HEAD");
    let refused = admin.send("GET", "/admin/v1/accounts?plan=gold", &[TOKEN], "").await;
    refused.assert_error_body(400, "INVALID_PARAMETER");
    assert_eq!(refused.message(), "plan must be one of free, pro, business, enterprise");
    let boss = admin.with_header("authorization", &operator(&shop, "boss", Role::Admin).await);
    let refused = boss.get("/admin/v1/accounts?pageSize=-1").await;
    refused.assert_error_body(400, "INVALID_PARAMETER");
    assert!(refused.message().starts_with("pageSize must"), "{refused:?}");
}

#[tokio::test]
async fn a_body_that_is_not_json_is_415_with_what_would_be_accepted() {
    let shop = TestShop::open().await;
    let boss = shop.admin().with_header("authorization", &operator(&shop, "boss", Role::Admin).await);
    for (sent, field, accepted) in [
        (("content-type", "text/plain"), "accept", "application/json"),
        (("content-encoding", "gzip"), "accept-encoding", "identity"),
    ] {
        let refused = boss.send("POST", "/admin/v1/accounts", &[sent], "{}").await;
        refused.assert_error_body(415, "UNSUPPORTED_MEDIA_TYPE");
        assert_eq!(refused.header(field), accepted, "{refused:?}");
    }
}

#[tokio::test]
async fn malformed_repeated_and_unknown_parameters_are_refused_and_named_as_in_json() {
    let shop = TestShop::open().await;
    let boss = shop.admin().with_header("authorization", &operator(&shop, "boss", Role::Admin).await);
    for name in ["one", "two", "three"] {
        let account = json!({ "name": name, "plan": "free" });
        boss.post("/admin/v1/accounts", &account).await.assert_status(201);
    }
    let issued = boss.post("/admin/v1/accounts/one/keys", &json!({ "ttl": "90d" })).await;
    let issued = issued.assert_status(201).json();
    let key = issued["key"]["id"].as_str().unwrap();
    let expiry = issued["key"]["expireTime"].as_str().unwrap();
    assert!(expiry.starts_with("2027-02-18T"), "90 days after 2026-11-20: {expiry}");

    let first = boss.get("/admin/v1/accounts?pageSize=1&plan=free").await.json();
    let token = first["nextPageToken"].as_str().unwrap();
    boss.get(&format!("/admin/v1/accounts?plan=free&pageToken={token}")).await.assert_status(200);
    let foreign =
        "pageToken must be the one returned with the previous page, unchanged, for the same filters";
    for (path, code, message) in [
        (format!("accounts?pageToken={token}"), "INVALID_CURSOR", foreign),
        (format!("accounts?plan=pro&pageToken={token}"), "INVALID_CURSOR", foreign),
        (format!("keys?pageToken={token}"), "INVALID_CURSOR", foreign),
        (
            "accounts?pageSize=1&pageSize=2".to_owned(),
            "INVALID_PARAMETER",
            "pageSize is given more than once",
        ),
        ("accounts?plan=".to_owned(), "INVALID_PARAMETER", "plan must not be empty"),
        ("refusals?requestId=".to_owned(), "INVALID_PARAMETER", "requestId must not be empty"),
        ("audit-events?keyId=abc".to_owned(), "INVALID_PARAMETER", "keyId must be the UUID of a key"),
        ("audit-events?account=a%20b".to_owned(), "INVALID_PARAMETER", "account must be 1 to 64 letters"),
        ("audit-events?operator=a%20b".to_owned(), "INVALID_PARAMETER", "operator must be 1 to 64 letters"),
        ("accounts?nameContains=%00".to_owned(), "INVALID_PARAMETER", "nameContains must"),
        (
            "accounts/one?accountId=1".to_owned(),
            "INVALID_PARAMETER",
            "account must not be given beside accountId",
        ),
        ("accounts/%ff".to_owned(), "INVALID_PARAMETER", "the path must be UTF-8"),
        ("accounts/%ff/limits".to_owned(), "INVALID_PARAMETER", "the path must be UTF-8"),
    ] {
        let refused = boss.get(&format!("/admin/v1/{path}")).await;
        refused.assert_error_body(400, code);
        assert!(refused.message().starts_with(message), "{path}: {refused:?}");
    }

    for (path, body, status, message) in [
        (format!("keys/{key}/revoke"), r#"{"reason":"x"}"#, 400, "reason is not a field of this object"),
        ("accounts/one/resume".to_owned(), "[1]", 400, "the body must be a JSON object"),
        ("accounts/one/resume".to_owned(), "not JSON", 400, "the body must be one JSON value"),
        ("accounts/one/keys".to_owned(), r#"{"ttl":"2920000d"}"#, 400, "ttl must end before the year 10000"),
        (
            format!("keys/{key}/rotate"),
            r#"{"grace":"2920000d"}"#,
            400,
            "grace must end before the year 10000",
        ),
        (format!("keys/{key}/rotate"), r#"{"ttl":"2920000d"}"#, 400, "ttl must end before the year 10000"),
        ("accounts".to_owned(), r#"{"plan":"free"}"#, 400, "name must be 1 to 64 letters"),
        ("accounts/one/keys".to_owned(), r#"{"ttl":"0s"}"#, 400, "expireTime must be in the future"),
        (format!("keys/{key}/ban"), "", 400, "duration is required, or endTime"),
        (format!("keys/{key}/ban"), r#"{"duration":"367d"}"#, 400, "endTime must be in the future"),
        ("accounts/one/resume".to_owned(), "{}", 200, ""),
        (format!("keys/{key}/revoke"), "", 200, ""),
    ] {
        let answer = boss.send("POST", &format!("/admin/v1/{path}"), &[], body).await;
        answer.assert_status(status);
        assert!(status == 200 || answer.message().starts_with(message), "{path}: {answer:?}");
    }
    let repeated = "/admin/v1/accounts/one?updateMask=plan&updateMask=name";
    boss.send("PATCH", repeated, &[], r#"{"plan":"pro"}"#).await.assert_error_body(400, "INVALID_PARAMETER");
    let unnamed = boss.send("PATCH", "/admin/v1/accounts/one", &[], r#"{"name":""}"#).await;
    assert!(unnamed.assert_status(400).message().starts_with("name must be 1 to 64 letters"), "{unnamed:?}");

    let right = shop.operator_token("ann", Role::Viewer).await;
    let spaced = shop.admin().with_header("authorization", &format!("bearer   {right} "));
    spaced.get("/admin/v1/operators/current").await.assert_status(200);
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

#[tokio::test]
async fn a_web_page_cannot_reach_the_admin_api_by_dns_rebinding() {
    let shop = TestShop::open().await;
    let refused = shop.admin().send("GET", "/admin/v1/openapi.json", &[("host", "evil.example")], "").await;
    refused.assert_error_body(421, "INVALID_REQUEST");
}

#[tokio::test]
async fn the_admin_document_describes_every_operation_and_its_errors() {
    let shop = TestShop::open().await;
    let document = shop.admin().get("/admin/v1/openapi.json").await.json();
    assert_eq!(document["openapi"], "3.1.0");
    let paths = document["paths"].as_object().unwrap();
    for path in [
        "/admin/v1/accounts",
        "/admin/v1/accounts/{account}",
        "/admin/v1/accounts/{account}/limits",
        "/admin/v1/keys/{keyId}/rotate",
        "/admin/v1/bans",
        "/admin/v1/usage",
        "/admin/v1/audit-events",
        "/admin/v1/operators",
    ] {
        assert!(paths.contains_key(path), "{path} is missing");
    }
    let plan = &document["components"]["schemas"]["Account"]["properties"]["plan"];
    assert_eq!(plan["x-extensible-enum"], json!(["free", "pro", "business", "enterprise"]));
    let codes = &document["components"]["responses"]["Error"]["x-error-codes"];
    assert_eq!(codes["OPERATOR_NOT_PERMITTED"]["status"], 403);
    let rotate = &paths["/admin/v1/keys/{keyId}/rotate"]["post"];
    assert_eq!(rotate["tags"], json!(["keys"]));
    assert!(document["tags"].as_array().unwrap().contains(&json!({"name": "keys"})), "{}", document["tags"]);
    let statuses: Vec<_> = rotate["responses"].as_object().unwrap().keys().collect();
    assert_eq!(statuses, ["200", "401", "403", "404", "409", "429", "default"]);
    let list: Vec<_> = paths["/admin/v1/bans"]["get"]["responses"].as_object().unwrap().keys().collect();
    assert_eq!(list, ["200", "401", "403", "429", "default"]);
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
async fn guesses_of_tokens_lock_out_no_valid_token_or_session_on_any_gateway() {
    let shop = TestShop::open_apart(2).await;
    let [first, second]: [Client; 2] = shop.admins().try_into().unwrap();
    let guess = first.with_header(TOKEN.0, TOKEN.1);
    for _ in 0..10 {
        guess.get("/admin/v1/bans").await.assert_error_body(401, "INVALID_OPERATOR_TOKEN");
    }
    for _ in 0..5 {
        let refused = guess.get("/admin/v1/bans").await;
        refused.assert_error_body(429, "TOO_MANY_ATTEMPTS");
        assert!((1..=60).contains(&refused.retry_after()), "{refused:?}");
    }
    let token = operator(&shop, "boss", Role::Admin).await; // not known to any gateway yet
    for gateway in [&first, &second] {
        gateway.with_header("authorization", &token).get("/admin/v1/bans").await.assert_status(200);
    }
    let opened = first.with_header("authorization", &token).post("/admin/v1/sessions", &json!({})).await;
    let session = format!("Bearer {}", opened.assert_status(201).json()["token"].as_str().unwrap());
    for gateway in [&second, &first] {
        gateway.with_header("authorization", &session).get("/admin/v1/bans").await.assert_status(200);
    }
    second
        .with_header(TOKEN.0, TOKEN.1)
        .get("/admin/v1/bans")
        .await
        .assert_error_body(429, "TOO_MANY_ATTEMPTS");

    let _other = operator(&shop, "deputy", Role::Admin).await; // without it, boss would be the last admin
    let boss = first.with_header("authorization", &token);
    let refused = boss.post("/admin/v1/operators/boss/revoke", &json!({})).await;
    refused.assert_error_body(409, "FORCE_REQUIRED");
    assert!(refused.message().contains("boss is you"), "{refused:?}");
    boss.post("/admin/v1/operators/boss/revoke", &json!({ "force": true })).await.assert_status(200);
    for revoked in [&token, &session] {
        let refused = second.with_header("authorization", revoked).get("/admin/v1/bans").await;
        refused.assert_error_body(429, "TOO_MANY_ATTEMPTS"); // like any other invalid token
    }
    shop.advance(Duration::from_mins(1));
    guess.get("/admin/v1/bans").await.assert_error_body(401, "INVALID_OPERATOR_TOKEN");
}

#[tokio::test]
async fn key_material_is_refused_as_a_name_and_never_echoed() {
    const KEY: &str = "pet_live_0000000000000000000000000000001PRvVh";
    let shop = TestShop::open().await;
    let boss = shop.admin().with_header("authorization", &operator(&shop, "boss", Role::Admin).await);
    boss.post("/admin/v1/accounts", &json!({ "name": "shop", "plan": "free" })).await.assert_status(201);
    let key = boss.post("/admin/v1/accounts/shop/keys", &json!({})).await.json();
    let key_id = key["key"]["id"].as_str().unwrap();
    for (method, path, body) in [
        ("POST", "/admin/v1/accounts".to_owned(), json!({ "name": KEY, "plan": "free" })),
        ("PATCH", "/admin/v1/accounts/shop".to_owned(), json!({ "name": KEY })),
        ("POST", "/admin/v1/accounts/shop/keys".to_owned(), json!({ "label": KEY })),
        ("POST", "/admin/v1/accounts/shop/suspend".to_owned(), json!({ "reason": KEY })),
        ("POST", format!("/admin/v1/keys/{key_id}/ban"), json!({ "reason": KEY, "duration": "1h" })),
        ("POST", "/admin/v1/operators".to_owned(), json!({ "name": KEY, "role": "admin" })),
        ("POST", "/admin/v1/operators".to_owned(), json!({ "name": "pet_op_1", "role": "admin" })),
        ("POST", format!("/admin/v1/accounts/{KEY}/suspend"), json!({})),
        ("POST", format!("/admin/v1/operators/{KEY}/revoke"), json!({})),
        ("POST", format!("/admin/v1/keys/{KEY}/rotate"), json!({})),
        ("GET", format!("/admin/v1/accounts/{KEY}"), json!(null)),
        ("GET", format!("/admin/v1/accounts/{KEY}/limits"), json!(null)),
        ("GET", format!("/admin/v1/accounts/shop/limits?keyId={KEY}"), json!(null)),
        ("GET", format!("/admin/v1/keys/{KEY}"), json!(null)),
        ("GET", format!("/admin/v1/usage?account={KEY}"), json!(null)),
        ("GET", format!("/admin/v1/accounts?{KEY}=1"), json!(null)),
    ] {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let refused = boss.send(method, &path, &[], body).await;
        assert_eq!(refused.status(), 400, "{method} {path}: {refused:?}");
        assert!(!refused.text().contains(&KEY[9..]) && !refused.text().contains("pet_op_1"), "{refused:?}");
    }
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
