//! Parameters and fields that an operation does not have, on every operation of REST.

use petstore_testkit::{Plan, TestShop};
use serde_json::json;

use crate::pets::created;

const STRICT: (&str, &str) = ("prefer", "handling=strict");

/// Requests for every operation of the OpenAPI document, with an unknown parameter.
const REQUESTS: [(&str, &str, &str); 5] = [
    ("GET", "/v1/pets?limit=5&colour=black", ""),
    ("POST", "/v1/pets?colour=black", r#"{"name": "Rex", "categoryId": 1}"#),
    ("GET", "/v1/pets/1?colour=black", ""),
    ("GET", "/v1/store/orders?limit=5&colour=black", ""),
    ("GET", "/v1/usage?colour=black", ""),
];

#[tokio::test]
async fn every_operation_names_an_unknown_parameter_and_ignores_it() {
    let shop = TestShop::open().await;
    let client = shop.client_on(Plan::Free).await;
    created(&client.post("/v1/pets", &json!({"name": "Rex", "categoryId": 1})).await);
    let document = shop.anonymous().get("/openapi.json").await.json();
    let paths = document["paths"].as_object().unwrap().values();
    assert_eq!(paths.map(|methods| methods.as_object().unwrap().len()).sum::<usize>(), REQUESTS.len());
    for (method, path, body) in REQUESTS {
        let answer = client.send(method, path, &[], body).await;
        assert!(matches!(answer.status(), 200 | 201), "{answer:?}");
        assert_eq!(answer.header("x-ignored-input"), r#""colour";in=query"#, "{method} {path}");
        assert_eq!(answer.find("preference-applied"), None);
        let known = path.replace("colour=black", "");
        let answer = client.send(method, &known, &[], body).await;
        assert_eq!(answer.find("x-ignored-input"), None, "{method} {known}: {answer:?}");
    }
}

#[tokio::test]
async fn every_operation_refuses_an_unknown_parameter_if_the_client_prefers_that() {
    let shop = TestShop::open().await;
    let client = shop.client_on(Plan::Free).await;
    created(&client.post("/v1/pets", &json!({"name": "Rex", "categoryId": 1})).await);
    for (method, path, body) in REQUESTS {
        let answer = client.send(method, path, &[STRICT], body).await;
        answer.assert_error(400, "UNKNOWN_INPUT");
        assert_eq!(answer.message(), "this operation does not have the parameter \"colour\"");
        assert_eq!(answer.header("preference-applied"), "handling=strict");
        assert_eq!(answer.find("x-ignored-input"), None);
        let known = path.replace("colour=black", "");
        let answer = client.send(method, &known, &[STRICT], body).await;
        assert!(matches!(answer.status(), 200 | 201), "{answer:?}");
        assert_eq!(answer.header("preference-applied"), "handling=strict", "{method} {known}");
    }
    // Only the second creation was carried out.
    assert_eq!(client.get("/v1/pets").await.json().as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn unknown_fields_are_named_with_unknown_parameters_even_beside_other_faults() {
    let shop = TestShop::open().await;
    let client = shop.client_on(Plan::Free).await;
    let misspelt = json!({"name": "Rex", "categoryID": 1, "a\r\nSet-Cookie: b\"": {"name": 1}});
    let answer = client.post("/v1/pets?dry=1", &misspelt).await;
    answer.assert_error(400, "VALIDATION_FAILED");
    let mut named = answer.header("x-ignored-input").split(", ").collect::<Vec<_>>();
    named.sort_unstable();
    let expected =
        [r#""a%0D%0ASet-Cookie%3A%20b%22";in=body"#, r#""categoryID";in=body"#, r#""dry";in=query"#];
    assert_eq!(named, expected);

    let body = r#"{"name": "Rex", "categoryID": 1}"#;
    let refused = client.send("POST", "/v1/pets?dry=1", &[STRICT], body).await;
    refused.assert_error(400, "UNKNOWN_INPUT");
    assert_eq!(
        refused.message(),
        "this operation does not have the parameter \"dry\", the field \"categoryID\""
    );
    let list = client.get("/v1/pets?limt=0&limit=0").await;
    list.assert_error(400, "INVALID_PARAMETER");
    assert_eq!(list.header("x-ignored-input"), r#""limt";in=query"#);
    assert_eq!(client.get("/v1/pets").await.text(), "[]");
}
