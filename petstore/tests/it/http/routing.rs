//! Paths and methods of the service.

use petstore_testkit::{Plan, TestShop, raw};

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
