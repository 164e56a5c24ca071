//! Paths and methods of the service.

use std::collections::BTreeSet;

use petstore_testkit::{Answer, Plan, TestShop, raw};

const LIST: [&str; 4] = ["GET", "HEAD", "OPTIONS", "POST"];
const ONE: [&str; 3] = ["GET", "HEAD", "OPTIONS"];

#[tokio::test]
async fn an_unknown_path_or_a_trailing_slash_is_not_found() {
    let shop = TestShop::open().await;
    let client = shop.client_on(Plan::Pro).await;
    for path in [
        "/v1",
        "/v1/",
        "/v1/pets/",
        "/v1/pets/1/",
        "/v1/pets/1/owners",
        "/v1//pets",
        "/v1/Pets",
        "/v1/pet",
        "/v1/petsx",
        "/v1/store",
        "/v1/store/orders/",
        "/v1/store/orders/1",
        "/v1/usage/",
        "/v1/usages",
        "/v1/categories",
        "/v1/v1/pets",
        "/v1/%70ets/",
        "/v1/pets%2F1",
        "/v1/../v1/nothing",
        "/v1/openapi.json",
    ] {
        for method in ["GET", "POST", "DELETE"] {
            let answer = client.send(method, path, &[], "").await;
            assert_eq!(answer.status(), 404, "{method} {path}: {answer:?}");
            answer.assert_error(404, "ROUTE_NOT_FOUND");
            assert_eq!(answer.find("allow"), None, "{method} {path}: {answer:?}");
        }
    }
}

#[tokio::test]
async fn an_unsupported_method_is_refused_with_the_allowed_ones() {
    let shop = TestShop::open().await;
    let client = shop.client_on(Plan::Free).await;
    for (path, methods, allowed) in [
        ("/v1/pets", ["PUT", "PATCH", "DELETE", "TRACE", "PROPFIND", "get"], LIST.as_slice()),
        ("/v1/pets/1", ["PUT", "PATCH", "DELETE", "TRACE", "POST", "get"], &ONE),
        ("/v1/store/orders", ["PUT", "PATCH", "DELETE", "TRACE", "POST", "get"], &ONE),
        ("/v1/usage", ["PUT", "PATCH", "DELETE", "TRACE", "POST", "get"], &ONE),
    ] {
        for method in methods {
            let answer = client.send(method, path, &[], "").await;
            assert_eq!(answer.status(), 405, "{method} {path}: {answer:?}");
            answer.assert_error(405, "METHOD_NOT_ALLOWED");
            assert_eq!(allow(&answer), allowed.iter().copied().collect(), "{method} {path}: {answer:?}");
        }
    }
}

#[tokio::test]
async fn options_lists_the_allowed_methods_without_a_key() {
    let shop = TestShop::open().await;
    for client in [shop.anonymous(), shop.anonymous().with_key("x"), shop.client_on(Plan::Free).await] {
        for (path, allowed) in [
            ("/v1/pets", LIST.as_slice()),
            ("/v1/pets/1", &ONE),
            ("/v1/pets/x", &ONE),
            ("/v1/store/orders", &ONE),
        ] {
            let answer = client.send("OPTIONS", path, &[], "").await;
            answer.assert_status(204);
            assert_eq!(allow(&answer), allowed.iter().copied().collect(), "{path}: {answer:?}");
            assert_eq!(answer.body(), b"", "{path}: {answer:?}");
        }
        for path in ["/v1", "/v1/pets/", "/v1/nothing"] {
            client.send("OPTIONS", path, &[], "").await.assert_error(404, "ROUTE_NOT_FOUND");
        }
    }
}

#[tokio::test]
async fn connect_requests_are_refused() {
    let shop = TestShop::open().await;
    let client = shop.client_on(Plan::Free).await;
    for target in ["127.0.0.1:9", "/v1/pets"] {
        let request = format!(
            "CONNECT {target} HTTP/1.1\r\nHost: 127.0.0.1:9\r\nAuthorization: Bearer {}\r\n\
             Connection: close\r\n\r\n",
            client.key()
        );
        let answer = raw::answer(&raw::exchange(client.address(), request.as_bytes()).await);
        assert!(answer.status() >= 400 && answer.status() < 500, "CONNECT {target}: {answer:?}");
    }
}

#[track_caller]
fn allow(answer: &Answer) -> BTreeSet<&str> {
    answer.header("allow").split(',').map(str::trim).collect()
}
