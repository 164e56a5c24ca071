//! Cross-origin requests from browsers.

use petstore_testkit::{Answer, Plan, TestShop};

const ORIGIN: &str = "https://shop.example";

const PREFLIGHT: [(&str, &str); 3] = [
    ("origin", ORIGIN),
    ("access-control-request-method", "POST"),
    ("access-control-request-headers", "authorization,content-type"),
];

#[tokio::test]
async fn no_origin_is_allowed_unless_the_operator_names_it() {
    let shop = TestShop::open().await;
    let client = shop.client_on(Plan::Free).await;
    let preflight = shop.anonymous().send("OPTIONS", "/v1/pets", &PREFLIGHT, "").await;
    let request = client.with_header("origin", ORIGIN).get("/v1/pets").await;
    for answer in [preflight, request] {
        assert!(
            !answer.headers().keys().any(|name| name.as_str().starts_with("access-control-")),
            "{answer:?}"
        );
    }
}

#[tokio::test]
async fn a_named_origin_may_send_requests_and_read_the_limits() {
    let shop = TestShop::open_with(&["--cors-origin", ORIGIN]).await;
    let client = shop.client_on(Plan::Free).await;
    let refused = shop.anonymous().with_header("origin", ORIGIN).get("/v1/pets").await;
    for answer in [client.with_header("origin", ORIGIN).get("/v1/pets").await, refused] {
        assert_eq!(answer.header("access-control-allow-origin"), ORIGIN, "{answer:?}");
        for field in
            ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset", "retry-after", "link"]
        {
            assert!(
                list(&answer, "access-control-expose-headers").contains(&field.to_owned()),
                "{field}: {answer:?}"
            );
        }
    }
}

#[tokio::test]
async fn a_preflight_of_a_named_origin_needs_no_key_and_carries_the_limits() {
    let shop = TestShop::open_with(&["--cors-origin", ORIGIN]).await;
    let answer = shop.anonymous().send("OPTIONS", "/v1/pets", &PREFLIGHT, "").await;
    assert!(matches!(answer.status(), 200 | 204), "{answer:?}");
    assert_eq!(answer.header("access-control-allow-origin"), ORIGIN, "{answer:?}");
    for method in ["get", "post"] {
        assert!(list(&answer, "access-control-allow-methods").contains(&method.to_owned()), "{answer:?}");
    }
    for field in ["authorization", "content-type", "idempotency-key", "x-request-id", "traceparent"] {
        assert!(list(&answer, "access-control-allow-headers").contains(&field.to_owned()), "{answer:?}");
    }
    assert_eq!((answer.rate().limit, answer.rate().remaining), (600, 600), "{answer:?}");
}

#[tokio::test]
async fn a_named_origin_may_read_the_error_of_an_unknown_path_or_method() {
    let shop = TestShop::open_with(&["--cors-origin", ORIGIN]).await;
    let client = shop.client_on(Plan::Free).await;
    for (method, path, status, code) in [
        ("GET", "/v1/pets/", 404, "ROUTE_NOT_FOUND"),
        ("PURGE", "/v1/cats", 404, "ROUTE_NOT_FOUND"),
        ("DELETE", "/v1/pets", 405, "METHOD_NOT_ALLOWED"),
        ("GET", "/cats", 404, "ROUTE_NOT_FOUND"),
    ] {
        let preflight = [("origin", ORIGIN), ("access-control-request-method", method)];
        let allowed = shop.anonymous().send("OPTIONS", path, &preflight, "").await;
        assert_eq!(
            (allowed.assert_status(204).body(), allowed.find("link")),
            (&b""[..], None),
            "{allowed:?}"
        );
        assert_eq!(allowed.header("access-control-allow-origin"), ORIGIN, "{path}");
        assert_eq!(list(&allowed, "access-control-allow-methods"), [method.to_ascii_lowercase()]);
        let refused = client.send(method, path, &[("origin", ORIGIN)], "").await;
        refused.assert_error_body(status, code);
        assert_eq!(refused.header("access-control-allow-origin"), ORIGIN, "{path}");
        assert!(list(&refused, "access-control-expose-headers").contains(&"allow".to_owned()), "{refused:?}");

        let other = [("origin", "https://other.example"), ("access-control-request-method", method)];
        let answer = shop.anonymous().send("OPTIONS", path, &other, "").await;
        assert_eq!(answer.find("access-control-allow-methods"), None, "{answer:?}");
        assert_eq!(answer.status(), if status == 404 { 404 } else { 204 }, "{answer:?}");
    }
}

#[tokio::test]
async fn another_origin_is_not_allowed() {
    let shop = TestShop::open_with(&["--cors-origin", ORIGIN]).await;
    let client = shop.client_on(Plan::Free).await;
    for origin in ["https://shop.example.evil", "http://shop.example", "null", "https://SHOP.example:444"] {
        let answer = client.with_header("origin", origin).get("/v1/pets").await;
        answer.assert_status(200);
        assert_ne!(answer.find("access-control-allow-origin"), Some(origin), "{answer:?}");
        assert_ne!(answer.find("access-control-allow-origin"), Some("*"), "{answer:?}");
    }
}

fn list(answer: &Answer, name: &str) -> Vec<String> {
    answer.header(name).split(',').map(|part| part.trim().to_ascii_lowercase()).collect()
}
