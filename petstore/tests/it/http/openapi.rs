//! The machine-readable description.

use petstore_testkit::{Plan, TestShop};
use serde_json::{Value, json};

#[tokio::test]
async fn the_description_is_served_to_anyone_without_rate_limits() {
    let shop = TestShop::open().await;
    let answer = shop.anonymous().get("/openapi.json").await;
    answer.assert_status(200);
    assert_eq!(answer.header("content-type"), "application/json", "{answer:?}");
    assert_eq!(answer.find("x-ratelimit-limit"), None);
    assert_eq!(answer.json()["info"]["version"], "1.0.0");
}

#[tokio::test]
async fn the_description_is_compressed_on_request_and_has_an_etag() {
    let shop = TestShop::open().await;
    let plain = shop.anonymous().get("/openapi.json").await;
    let compressed = shop.anonymous().with_header("accept-encoding", "gzip, br").get("/openapi.json").await;
    assert_eq!(compressed.header("content-encoding"), "gzip");
    assert!(compressed.body().len() * 4 < plain.body().len(), "{} bytes", compressed.body().len());
    assert_ne!(compressed.header("etag"), plain.header("etag"), "a strong tag names the bytes");
    for answer in [&plain, &compressed] {
        assert_eq!(answer.header("vary"), "Accept-Encoding");
        assert!(answer.header("etag").starts_with('"'), "{answer:?}");
    }
    assert_eq!(plain.find("content-encoding"), None);

    let again =
        shop.anonymous().with_header("if-none-match", plain.header("etag")).get("/openapi.json").await;
    again.assert_status(304);
    assert_eq!((again.body(), again.header("etag")), (&b""[..], plain.header("etag")));
    let etag = [("if-none-match", plain.header("etag"))];
    let head = shop.anonymous().send("HEAD", "/openapi.json", &etag, "").await;
    assert_eq!(head.assert_status(304).header("content-length"), plain.body().len().to_string());
}

#[tokio::test]
async fn the_description_names_the_operations_and_the_deprecated_one() {
    let shop = TestShop::open().await;
    let document = shop.anonymous().get("/openapi.json").await.json();
    let paths = &document["paths"];
    for (path, method, id, deprecated) in [
        ("/pets", "get", "listPets", false),
        ("/pets", "post", "createPet", false),
        ("/pets/{petId}", "get", "getPet", true),
        ("/store/orders", "get", "listOrders", false),
    ] {
        let operation = &paths[path][method];
        assert_eq!(operation["operationId"], id, "{paths}");
        assert_eq!(operation["deprecated"].as_bool().unwrap_or_default(), deprecated, "{operation}");
        for status in ["401", "429"] {
            let headers = &resolved(&document, &operation["responses"][status])["headers"];
            for field in ["X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"] {
                assert!(!headers[field].is_null(), "{field} of {status} of {id}: {operation}");
            }
        }
    }
}

#[tokio::test]
async fn the_program_prints_the_description_that_the_service_serves() {
    let shop = TestShop::open().await;
    let printed = crate::petstore().run(&["openapi"]).await;
    assert_eq!(printed.code, Some(0), "{printed:?}");
    let printed: Value = serde_json::from_str(&printed.stdout).unwrap();
    assert_eq!(printed, shop.anonymous().get("/openapi.json").await.json());
}

#[tokio::test]
async fn the_bounds_of_the_description_are_those_that_are_enforced() {
    let shop = TestShop::open().await;
    let document = shop.anonymous().get("/openapi.json").await.json();
    let client = shop.client_on(Plan::Pro).await;

    let limit = document["components"]["parameters"]["Limit"]["schema"]["maximum"].as_u64().unwrap();
    client.get(&format!("/v1/pets?limit={limit}")).await.assert_status(200);
    client.get(&format!("/v1/pets?limit={}", limit + 1)).await.assert_error(400, "INVALID_PARAMETER");

    let name = &document["components"]["schemas"]["NewPet"]["properties"]["name"];
    let longest = usize::try_from(name["maxLength"].as_u64().unwrap()).unwrap();
    let pet = |length: usize| json!({ "name": "é".repeat(length), "categoryId": 7 });
    client.post("/v1/pets", &pet(longest)).await.assert_status(201);
    client.post("/v1/pets", &pet(longest + 1)).await.assert_error(400, "VALIDATION_FAILED");

    let key = &document["components"]["parameters"]["IdempotencyKey"]["schema"]["maxLength"];
    let longest = usize::try_from(key.as_u64().unwrap()).unwrap();
    let with_key = |length: usize| client.with_header("idempotency-key", &"k".repeat(length));
    with_key(longest).post("/v1/pets", &pet(1)).await.assert_status(201);
    with_key(longest + 1).post("/v1/pets", &pet(1)).await.assert_error(400, "INVALID_IDEMPOTENCY_KEY");
}

/// Returns the value that a `$ref` into the document refers to, or else the value itself.
fn resolved<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    match value["$ref"].as_str() {
        Some(place) => document.pointer(place.trim_start_matches('#')).unwrap_or(&Value::Null),
        None => value,
    }
}
