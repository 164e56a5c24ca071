//! `GET /v1/pets/{petId}`. Its deprecation is tested in `get_deprecation.rs`.

use petstore_testkit::{Plan, TestShop};
use serde_json::json;

use crate::pets::created;

#[tokio::test]
async fn a_pet_is_fetched_as_it_was_created() {
    let shop = TestShop::open().await;
    let client = shop.client_on(Plan::Free).await;
    let posted =
        client.post("/v1/pets", &json!({"name": "Rex", "categoryId": i64::MAX, "status": "sold"})).await;
    let answer = client.get(&format!("/v1/pets/{}", created(&posted))).await;
    answer.assert_status(200);
    assert_eq!(answer.header("content-type"), "application/json", "{answer:?}");
    assert_eq!(
        answer.json(),
        json!({"id": 1, "name": "Rex", "categoryId": i64::MAX, "status": "sold"}),
        "{answer:?}"
    );
    let head = client.send("HEAD", "/v1/pets/1", &[], "").await;
    assert_eq!((head.status(), head.body()), (200, b"".as_slice()), "{head:?}");
}

#[tokio::test]
async fn a_pet_that_does_not_exist_is_not_found() {
    let shop = TestShop::open().await;
    let client = shop.client_on(Plan::Free).await;
    for id in [i64::MIN, -1, 0, 1, i64::MAX] {
        client.get(&format!("/v1/pets/{id}")).await.assert_error(404, "PET_NOT_FOUND");
    }
}
