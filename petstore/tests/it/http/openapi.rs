//! The machine-readable description.

use petstore_proto::PageToken;
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

/// So no two lists have the same number in their cursors, and each reads the cursors that it writes.
#[tokio::test]
async fn a_cursor_is_valid_in_one_list_of_the_description_only() {
    let shop = TestShop::open().await;
    let document = shop.anonymous().get("/openapi.json").await.json();
    let client = shop.client_on(Plan::Business).await;
    let cursor = json!({ "$ref": "#/components/parameters/Cursor" });
    let is_list = |get: &Value| get["parameters"].as_array().is_some_and(|all| all.contains(&cursor));
    let paths = document["paths"].as_object().unwrap().iter();
    let lists: Vec<_> = paths.filter(|(_, methods)| is_list(&methods["get"])).map(|(path, _)| path).collect();
    assert!(lists.len() >= 2, "{lists:?}");
    let mut found = 0;
    for number in 0..16 {
        let token = PageToken { list: number * 16, last_id: 7 };
        let mut accepted = Vec::new();
        for path in &lists {
            let answer = client.get(&format!("/v1{path}?cursor={token}")).await;
            if answer.status() == 200 {
                accepted.push(path);
            } else {
                answer.assert_error(400, "INVALID_CURSOR");
            }
        }
        assert!(accepted.len() <= 1, "{accepted:?} read the same cursors");
        found += accepted.len();
    }
    assert_eq!(found, lists.len());
}

#[tokio::test]
async fn every_creation_of_the_description_has_a_name() {
    let shop = TestShop::open().await;
    let document = shop.anonymous().get("/openapi.json").await.json();
    let client = shop.client_on(Plan::Free).await;
    let mut creations = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        let schema = &methods["post"]["requestBody"]["content"]["application/json"]["schema"]["$ref"];
        let Some(schema) = schema.as_str() else { continue };
        let example = &document.pointer(&schema[1..]).unwrap()["example"];
        let named = client.with_header("idempotency-key", path);
        let [first, again] = [
            named.post(&format!("/v1{path}"), example).await,
            named.post(&format!("/v1{path}"), example).await,
        ];
        first.assert_status(201);
        assert_eq!(again.json(), first.json(), "POST {path} created two with one Idempotency-Key");
        assert_eq!(again.header("idempotency-replayed"), "true", "{path}");
        creations += 1;
    }
    assert!(creations > 0);
}
