//! Failures as Problem Details (RFC 9457), on request.

use petstore_testkit::{Plan, TestShop};
use serde_json::{Value, json};

const PROBLEM: (&str, &str) = ("accept", "application/problem+json");
const ID: (&str, &str) = ("x-request-id", "order-66");

/// Returns the problem for a code.
fn problem(status: u16, code: &str, title: &str, detail: &str) -> Value {
    let page = format!("/docs/errors/{code}");
    json!({
        "type": page, "title": title, "status": status, "detail": detail, "code": code,
        "requestId": "order-66"
    })
}

#[tokio::test]
async fn a_failure_of_any_step_has_the_facts_of_its_error() {
    let shop = TestShop::open().await;
    let client = shop.client_on(Plan::Free).await;
    let anonymous = shop.anonymous();
    for (client, method, path, status, title) in [
        (&client, "GET", "/v1/pets/7", 404, "Pet not found"),
        (&client, "GET", "/v1/nothing", 404, "Route not found"),
        (&client, "DELETE", "/v1/pets", 405, "Method not allowed"),
        (&client, "POST", "/v1/pets", 400, "Malformed json"),
        (&anonymous, "GET", "/v1/pets", 401, "Missing api key"),
        (&anonymous, "GET", "/nothing", 404, "Route not found"),
    ] {
        let error = client.send(method, path, &[], "").await;
        assert_eq!(error.header("content-type"), "application/json", "{path}");
        let answer = client.send(method, path, &[PROBLEM, ID], "").await;
        assert_eq!((answer.status(), answer.header("content-type")), (status, PROBLEM.1), "{path}");
        let code = error.json()["code"].as_str().unwrap().to_owned();
        assert_eq!(answer.json(), problem(status, &code, title, &error.message()), "{method} {path}");
        for field in ["link", "www-authenticate", "allow", "x-ratelimit-limit", "cache-control", "vary"] {
            assert_eq!(answer.values(field), error.values(field), "{method} {path}: {field}");
        }
    }
    assert_eq!(anonymous.send("GET", "/nothing", &[], "").await.values("vary"), ["accept"]);
    for (client, path) in [
        (&client, "/v1/pets/7"),
        (&client, "/v1/nothing"),
        (&client, "/v1/pets?limit=0"),
        (&anonymous, "/v1/pets"),
        (&anonymous, "/nothing"),
    ] {
        for accept in [PROBLEM, ("accept", "*/*")] {
            let fields = [accept, ID];
            let get = client.send("GET", path, &fields, "").await;
            let head = client.send("HEAD", path, &fields, "").await;
            assert_eq!((head.status(), head.body()), (get.status(), &b""[..]), "{path}");
            for field in ["content-type", "content-length"] {
                assert_eq!(head.header(field), get.header(field), "{path} with {accept:?}: {field}");
            }
        }
    }
    let page = client.send("GET", "/v1/pets", &[PROBLEM], "").await;
    assert_eq!((page.status(), page.header("content-type")), (200, "application/json"));
}

#[tokio::test]
async fn every_faulty_field_and_parameter_has_a_pointer_or_its_name_and_a_reason() {
    let shop = TestShop::open().await;
    let client = shop.client_on(Plan::Free).await;
    let strict = ("prefer", "handling=strict");
    let limit = json!({ "parameter": "limit", "detail": "must be a whole number from 1 to 100" });
    let status = "must be one of available, pending, sold";
    for (path, body, fields, errors) in [
        // the first round, of the gateway
        (
            "/v1/pets",
            r#"{"status": 7}"#,
            &[][..],
            json!([
                { "pointer": "#/name", "detail": "is required" },
                { "pointer": "#/categoryId", "detail": "is required" },
                { "pointer": "#/status", "detail": status },
            ]),
        ),
        // the second round, of the core
        (
            "/v1/pets",
            r#"{"name": " ", "categoryId": 1, "status": "lost"}"#,
            &[],
            json!([
                { "pointer": "#/name", "detail": "must not be blank" },
                { "pointer": "#/status", "detail": status },
            ]),
        ),
        (
            "/v1/pets?dry=1",
            r#"{"name": "Rex", "categoryId": 1, "a/b": 1}"#,
            &[strict],
            json!([
                { "parameter": "dry", "detail": "is unknown" },
                { "pointer": "#/a~1b", "detail": "is unknown" },
            ]),
        ),
        ("/v1/pets?limit=0", "", &[], json!([limit])),
        (
            "/v1/pets?limit=0&status=lost",
            "",
            &[],
            json!([limit, { "parameter": "status", "detail": status }]),
        ),
        (
            "/v1/pets?cursor=x",
            "",
            &[],
            json!([{
                "parameter": "cursor",
                "detail": "must be the one returned with the previous page, unchanged"
            }]),
        ),
    ] {
        let method = if body.is_empty() { "GET" } else { "POST" };
        let answer = client.send(method, path, &[&[PROBLEM], fields].concat(), body).await;
        assert_eq!((answer.status(), answer.header("content-type")), (400, PROBLEM.1), "{answer:?}");
        assert_eq!(answer.json()["errors"], errors, "{path} {body}");
    }
}

#[tokio::test]
async fn clients_that_do_not_prefer_problem_details_get_the_error_of_three_members() {
    let shop = TestShop::open().await;
    let client = shop.client_on(Plan::Free).await;
    for accepted in ["*/*", "application/json", "application/json, application/problem+json", "text/html"] {
        let answer = client.send("GET", "/v1/pets?limit=0", &[("accept", accepted)], "").await;
        answer.assert_error(400, "INVALID_PARAMETER");
        assert_eq!(answer.header("content-type"), "application/json", "{accepted}");
    }
}
