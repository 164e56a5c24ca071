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

fn list(answer: &Answer, name: &str) -> Vec<String> {
    answer.header(name).split(',').map(|part| part.trim().to_ascii_lowercase()).collect()
}
