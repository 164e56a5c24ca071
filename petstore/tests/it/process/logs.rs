//! Lines of the log, as an operator's tools read them.

use std::{
    collections::BTreeSet,
    fs,
    time::{Duration, Instant},
};

use petstore_testkit::{Answer, Client, Installation, Server, eventually, raw};
use serde_json::{Value, json};

use crate::{first_client, petstore, serve};

/// Timeout of a line, which a separate thread writes.
const LINE_TIMEOUT: Duration = Duration::from_secs(10);

#[tokio::test]
async fn a_request_is_one_log_line_with_caller_operation_and_outcome() {
    let installation = petstore();
    let server = installation.start(&serve(&["--log-format", "json"])).await;
    let client = first_client(&installation, &server).with_header("x-request-id", "order-66");
    client.get("/v1/pets/7?secret=s").await.assert_status(404);

    let line = line_of(&server, "order-66").await;
    let key_id = crate::only_key_id(&installation, "first").await;
    for (name, value) in [
        ("level", json!("INFO")),
        ("operation", json!("getPet")),
        ("status", json!(404)),
        ("code", json!("PET_NOT_FOUND")),
        ("account_id", json!(1)),
        ("key_id", json!(key_id)),
        ("client", json!("127.0.0.1")),
    ] {
        assert_eq!(line[name], value, "{name} in {line}");
    }
    assert!(line["duration_ms"].as_f64().is_some_and(|took| took > 0.0), "{line}");
    let decimals = line["duration_ms"].to_string().split_once('.').map_or(0, |(_, decimals)| decimals.len());
    assert!(decimals <= 3, "microseconds, without noise of floats: {line}");
    assert!(line["timestamp"].as_str().is_some_and(|time| time.ends_with('Z')), "{line}");
}

#[tokio::test]
async fn the_log_names_the_key_of_a_refused_request_and_none_of_a_stranger() {
    let installation = petstore();
    let server = installation.start(&serve(&["--log-format", "json"])).await;
    let client = first_client(&installation, &server);
    client.sends(60, "/v1/pets").await;
    let refused = client.get("/v1/pets").await;
    let stranger = server.anonymous().get("/v1/pets").await;

    let line = line_of(&server, request_id(refused.assert_status(429))).await;
    assert_eq!((&line["code"], &line["account_id"]), (&json!("RATE_LIMITED"), &json!(1)), "{line}");
    let line = line_of(&server, request_id(stranger.assert_status(401))).await;
    assert_eq!((&line["code"], &line["account_id"]), (&json!("MISSING_API_KEY"), &Value::Null), "{line}");
}

#[tokio::test]
async fn the_log_names_the_key_of_a_suspended_account() {
    let installation = petstore();
    let server = installation.start(&serve(&["--log-format", "json"])).await;
    let client = first_client(&installation, &server);
    client.get("/v1/pets").await.assert_status(200);
    let suspended = installation.run(&["account", "suspend", "first", "--yes"]).await;
    assert_eq!(suspended.code, Some(0), "{suspended:?}");
    let refused = eventually(LINE_TIMEOUT, async || match client.get("/v1/pets").await {
        refused if refused.status() == 403 => Ok(refused),
        answer => Err(format!("{answer:?}")),
    })
    .await;
    let line = line_of(&server, request_id(&refused)).await;
    let key_id = crate::only_key_id(&installation, "first").await;
    assert_eq!((&line["account_id"], &line["key_id"]), (&json!(1), &json!(key_id)), "{line}");
}

#[tokio::test]
async fn an_operators_request_is_one_log_line_with_operator_action_and_address() {
    let installation = petstore();
    let server = installation.start(&serve(&["--log-format", "json"])).await;
    let operator = first_operator(&installation, &server);
    let of_console = [("petstore-console", "1")];
    let ask = async |client: &Client, id: &str, method: &str, path: &str, body: &str| {
        client.with_header("x-request-id", id).send(method, path, &of_console, body.to_owned()).await;
        let line = line_of(&server, id).await;
        assert_eq!(line["client"], "127.0.0.1", "{line}");
        ["operator", "subject", "method", "status"].map(|member| line[member].clone())
    };
    let stranger = server.admin();
    let suspend = "/admin/v1/accounts/first/suspend";
    assert_eq!(
        ask(&operator, "desk-0001", "POST", suspend, "{}").await,
        [json!("first"), json!("first"), json!("SuspendAccount"), json!(200)]
    );
    assert_eq!(
        ask(&operator, "desk-0002", "GET", "/admin/v1/accounts/nobody", "").await,
        [json!("first"), json!("nobody"), json!("GetAccount"), json!(404)]
    );
    assert_eq!(
        ask(&stranger, "desk-0003", "GET", "/admin/v1/accounts/first", "").await,
        [Value::Null, Value::Null, json!("GetAccount"), json!(401)]
    );
    let guess = json!({ "token": "pet_op_0000000000000000000000000000000000" }).to_string();
    assert_eq!(
        ask(&stranger, "desk-0004", "POST", "/console/session", &guess).await,
        [Value::Null, Value::Null, json!("CreateSession"), json!(401)]
    );
    let token = installation.read("data/first-operator-token");
    let right = json!({ "token": token.trim() }).to_string();
    assert_eq!(
        ask(&stranger, "desk-0005", "POST", "/console/session", &right).await,
        [json!("first"), Value::Null, json!("CreateSession"), json!(200)]
    );
    assert!(!server.stderr().contains(token.trim()) && !server.stderr().contains("pet_op_0000"));
}

#[tokio::test]
async fn an_operators_request_that_is_refused_before_its_operation_is_named_and_logged_too() {
    let installation = petstore();
    let server = installation.start(&serve(&["--log-format", "json"])).await;
    server.ready().await;
    let api = "POST /admin/v1/accounts";
    for (request_id, request, fields, status) in [
        ("desk-0001", api, "Host: localhost\r\nContent-Length: 65537", 413),
        ("desk-0002", api, "Host: localhost\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0", 501),
        ("desk-0003", api, "Host: evil.example", 421),
        ("desk-0004", "POST /console/session", "Host: localhost\r\nContent-Length: 65537", 413),
        ("desk-0005", "PUT /log-level", "Host: localhost\r\nContent-Length: 65537", 413),
    ] {
        let request = format!(
            "{request} HTTP/1.1\r\nConnection: close\r\nX-Request-Id: {request_id}\r\n{fields}\r\n\r\n"
        );
        let answer = raw::answer(&raw::exchange(server.address("admin"), request.as_bytes()).await);
        assert_eq!(answer.assert_status(status).header("x-request-id"), request_id, "{request}");
        let line = line_of(&server, request_id).await;
        assert_eq!((&line["client"], &line["status"]), (&json!("127.0.0.1"), &json!(status)), "{line}");
    }
}

/// Returns a client of the admin port for the first operator.
fn first_operator(installation: &Installation, server: &Server) -> Client {
    let token = installation.read("data/first-operator-token");
    server.admin().with_header("authorization", &format!("Bearer {}", token.trim()))
}

#[tokio::test]
async fn every_line_is_one_json_object_whatever_a_client_sends() {
    let installation = petstore();
    let server = installation.start(&serve(&["--log-format", "json", "--log-level", "trace"])).await;
    let client = first_client(&installation, &server);
    for hostile in ["%0d%0a{%22level%22:%22ERROR%22}", "%1b[31m", "%E2%80%A8", "%00"] {
        client.get(&format!("/v1/pets/{hostile}?status={hostile}&cursor={hostile}")).await;
        client.get(&format!("/v1/pets?cursor={hostile}")).await.assert_status(400);
    }
    let name = "\u{1b}[31m\n{\"level\":\"ERROR\"}\u{2028}";
    client.post("/v1/pets", &json!({"name": name, "categoryId": "x\n"})).await.assert_status(400);
    let exit = server.terminate().await;
    assert!(exit.stderr.lines().count() > 20, "{}", exit.stderr);
    for line in exit.stderr.lines() {
        let line: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(line["level"].is_string() && line["level"] != "ERROR", "{line}");
    }
}

#[tokio::test]
async fn health_and_metrics_are_not_logged() {
    let installation = petstore();
    let server = installation.start(&serve(&[])).await;
    for path in ["/livez", "/readyz", "/metrics", "/nothing"] {
        server.admin().get(path).await;
    }
    let exit = server.terminate().await;
    assert!(!exit.stderr.contains("answered"), "{}", exit.stderr);
    assert!(exit.stderr.contains("stopped"), "the last line is written too: {}", exit.stderr);
}

#[tokio::test]
async fn the_log_level_can_be_changed_while_the_service_runs() {
    let installation = petstore();
    let flags = ["--log-format", "json", "--log-level", "error", "--trusted-proxy", "127.0.0.1"];
    let server = installation.start(&serve(&flags)).await;
    let client = first_client(&installation, &server);
    assert_eq!(server.admin().get("/log-level").await.text(), "error");
    client.with_header("x-request-id", "not-logged").get("/v1/pets").await;

    server
        .admin()
        .send("PUT", "/log-level", &[], "trace")
        .await
        .assert_error_body(401, "INVALID_OPERATOR_TOKEN");
    let viewer = installation.run(&["operator", "create", "vera", "--role", "viewer"]).await.stdout;
    let viewer = server.admin().with_header("authorization", &format!("Bearer {}", viewer.trim()));
    let refused = viewer.send("PUT", "/log-level", &[], "trace").await;
    refused.assert_error_body(403, "OPERATOR_NOT_PERMITTED");
    assert_eq!(server.admin().get("/log-level").await.text(), "error");

    let admin = first_operator(&installation, &server).with_header("x-forwarded-for", "203.0.113.9");
    let set = async |filter: &str| admin.send("PUT", "/log-level", &[], filter.to_owned()).await;
    set("info,petstore_core=debug\n").await.assert_status(204);
    client.with_header("x-request-id", "is-logged").get("/v1/pets").await;
    line_of(&server, "is-logged").await;
    for silencing in ["==", "", "banana", "debgu", "info,petstore_core"] {
        let refused = set(silencing).await;
        refused.assert_error_body(400, "INVALID_REQUEST");
        assert!(refused.message().contains("error, warn, info, debug, trace"), "{refused:?}");
    }
    assert_eq!(server.admin().get("/log-level").await.text(), "info,petstore_core=debug");
    assert!(!server.stderr().contains("not-logged"), "{}", server.stderr());

    // Even a log that is off, or goes on again, has the line of its change; the audit log has every change.
    set("off").await.assert_status(204);
    eventually(LINE_TIMEOUT, async || {
        let log = server.stderr();
        if log.contains(r#""filter":"off""#) { Ok(()) } else { Err(log) }
    })
    .await;
    set("warn").await.assert_status(204);
    eventually(LINE_TIMEOUT, async || {
        let log = server.stderr();
        if log.contains(r#""filter":"warn""#) { Ok(()) } else { Err(log) }
    })
    .await;
    let events = admin.get("/admin/v1/audit-events?operator=first").await.assert_status(200).json();
    let events = events["events"].as_array().unwrap().iter().filter(|event| event["action"] == "SetLogLevel");
    let events = events.inspect(|event| assert_eq!(event["clientAddress"], "203.0.113.9"));
    let filters: Vec<_> = events.map(|event| event["afterJson"].as_str().unwrap().to_owned()).collect();
    let set = ["warn", "off", "info,petstore_core=debug"].map(|it| json!({ "logFilter": it }).to_string());
    assert_eq!(filters, set);
}

#[tokio::test]
async fn one_query_finds_the_lines_of_gateway_and_core() {
    let installation = petstore();
    let server = installation.start(&serve(&["--log-format", "json", "--log-level", "debug"])).await;
    let client = first_client(&installation, &server).with_header("x-request-id", "order-77");
    client.post("/v1/pets", &json!({"name": "", "categoryId": 1})).await.assert_status(400);
    eventually(LINE_TIMEOUT, async || {
        let log = server.stderr();
        let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let targets: BTreeSet<String> = lines
            .filter(|line| line["request_id"] == "order-77" && line["code"] == "VALIDATION_FAILED")
            .filter_map(|line| line["target"].as_str()?.split("::").next().map(str::to_owned))
            .collect();
        if targets.len() == 2 { Ok(()) } else { Err(format!("{targets:?}: {log}")) }
    })
    .await;
}

/// Tests every member of the service's own lines against the operator's guide.
#[tokio::test]
async fn a_log_line_has_only_the_members_in_the_guide() {
    let guide = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/operations.md")).unwrap();
    let section = guide.split("\n## Log\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
    let known: BTreeSet<&str> = rows
        .flat_map(|row| row.split(" | ").next().unwrap_or_default().split(", "))
        .map(|name| name.trim_matches(['`', ' ']))
        .collect();
    assert!(known.contains("request_id") && known.contains("timestamp"), "{known:?}");

    let installation = petstore().with_variable("PETSTORE_LOG_LEVEL", "trace");
    let server = installation.start(&serve(&["--log-format", "json"])).await;
    let client = first_client(&installation, &server);
    client.get("/v1/pets/7").await.assert_status(404);
    client.post("/v1/pets", &json!({"name": "", "categoryId": 1})).await.assert_status(400);
    client.send("POST", "/v1/pets", &[("content-length", "9")], "{}").await;
    client.sends(60, "/v1/pets").await;
    let operator = first_operator(&installation, &server);
    operator.send("PUT", "/log-level", &[], "trace").await.assert_status(204);
    operator.get("/admin/v1/accounts/first").await.assert_status(200);
    server.admin().get("/admin/v1/accounts/first").await.assert_status(401);
    let mut log = server.terminate().await.stderr;
    let args = [
        "gateway",
        "--core-url",
        "http://127.0.0.1:1",
        "--http-addr",
        "127.0.0.1:0",
        "--admin-addr",
        "127.0.0.1:0",
    ];
    let gateway = installation.start(&[args.as_slice(), &["--log-format", "json"]].concat()).await;
    gateway.client(client.key()).get("/v1/pets").await.assert_status(503);
    log.push_str(&gateway.terminate().await.stderr);

    let mut seen = BTreeSet::new();
    for line in log.lines() {
        let line: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(!line.to_string().contains("TransportError("), "raw Rust: {line}");
        if line["target"].as_str().is_some_and(|target| target.starts_with("petstore")) {
            seen.extend(line.as_object().unwrap().keys().cloned());
        }
    }
    let unknown: Vec<_> = seen.iter().filter(|name| !known.contains(name.as_str())).collect();
    assert!(unknown.is_empty() && seen.len() > 10, "not in the guide: {unknown:?}; seen: {seen:?}");
}

#[tokio::test]
async fn an_unread_log_delays_no_request() {
    let installation = petstore();
    let server = installation.start_unread(&serve(&["--log-level", "trace"])).await;
    let client = first_client(&installation, &server);
    let dropped = eventually(Duration::from_mins(5), async || {
        let start = Instant::now();
        client.sends(50, "/v1/pets").await;
        assert!(start.elapsed() < Duration::from_secs(10), "50 requests took {:?}", start.elapsed());
        let metrics = server.admin().get("/metrics").await;
        let name = "petstore_log_lines_dropped_total ";
        let dropped = metrics.text().lines().find_map(|line| line.strip_prefix(name)).unwrap();
        if dropped == "0" { Err("no line was dropped".to_owned()) } else { Ok(dropped.to_owned()) }
    })
    .await;
    assert!(dropped.parse::<u64>().unwrap() > 0);
    let exit = server.terminate().await;
    assert_eq!(exit.code, Some(0), "{exit:?}");
    assert!(exit.took < Duration::from_secs(10), "{exit:?}");
}

fn request_id(answer: &Answer) -> &str {
    answer.header("x-request-id")
}

/// Returns the line of a request in the log, which is JSON.
async fn line_of(server: &Server, request_id: &str) -> Value {
    eventually(LINE_TIMEOUT, async || {
        let log = server.stderr();
        let lines: Vec<Value> = log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let mut found = lines.into_iter().filter(|line| line["request_id"] == request_id);
        match (found.next(), found.next()) {
            (Some(line), None) => Ok(line),
            _ => Err(format!("not one line of {request_id} in {log}")),
        }
    })
    .await
}
