//! The end of `GET /v1/pets/{petId}` on 5 December 2030.

use std::time::Duration;

use petstore_testkit::{Answer, Plan, TestShop, grpc};
use serde_json::json;

use crate::pets::created;

#[tokio::test]
async fn every_response_of_the_path_announces_the_end_and_the_replacement() {
    let shop = TestShop::open().await;
    let client = shop.client_with(5, 100).await;
    let one = created(&client.post("/v1/pets", &json!({"name": "Rex", "categoryId": 1})).await);
    let path = format!("/v1/pets/{one}");
    for (client, method, path, status) in [
        (&client, "GET", path.as_str(), 200),
        (&client, "HEAD", &path, 200),
        (&client, "DELETE", &path, 405),
        (&client, "GET", "/v1/pets/99", 404),
        (&client, "GET", "/v1/pets/x", 429),
        (&client, "OPTIONS", &path, 204),
        (&shop.anonymous(), "GET", &path, 401),
        (&shop.anonymous(), "HEAD", "/v1/pets/x", 401),
        (&shop.anonymous(), "PUT", &path, 401),
    ] {
        let answer = client.send(method, path, &[], "").await;
        assert_eq!(answer.status(), status, "{method} {path}: {answer:?}");
        assert_announced(&answer);
    }
}

#[tokio::test]
async fn the_operation_is_gone_from_5_december_2030_on() {
    let shop = TestShop::open_at("2030-12-04T23:59:59Z").await;
    let client = shop.client_on(Plan::Free).await;
    let posted = client.post("/v1/pets", &json!({"name": "Rex", "categoryId": 1})).await;
    let one = created(&posted);
    assert_eq!(posted.header("location"), format!("/v1/pets/{one}"));
    shop.advance(Duration::from_millis(999));
    client.get("/v1/pets/1").await.assert_status(200);

    shop.advance(Duration::from_millis(1));
    for id in ["1", "99", "x"] {
        let answer = client.get(&format!("/v1/pets/{id}")).await;
        answer.assert_error(410, "OPERATION_REMOVED");
        assert_announced(&answer);
    }
    shop.anonymous().get("/v1/pets/1").await.assert_error(401, "MISSING_API_KEY");
    let posted = client.post("/v1/pets", &json!({"name": "Tom", "categoryId": 1})).await;
    created(&posted);
    assert_eq!(posted.find("location"), None, "the place is gone: {posted:?}");

    let mut pets = grpc::pet_store(shop.grpc_addr()).await;
    #[expect(deprecated, reason = "GetPet stays on gRPC")]
    let answer = pets.get_pet(grpc::pb::GetPetRequest { pet_id: one }).await.unwrap().into_inner();
    assert_eq!(answer.pet.unwrap().name, "Rex");
}

#[tokio::test]
async fn the_page_of_its_link_says_how_to_live_without_it() {
    let shop = TestShop::open().await;
    let page = shop.anonymous().get("/docs/deprecation").await;
    let text = page.assert_status(200).text();
    assert!(text.contains("5 December 2030") && text.contains("no other lookup by"), "{text}");
}

#[track_caller]
fn assert_announced(answer: &Answer) {
    assert_eq!(answer.header("deprecation"), "@1764892800", "{answer:?}");
    assert_eq!(answer.header("sunset"), "Thu, 05 Dec 2030 00:00:00 GMT", "{answer:?}");
    let links = answer.values("link");
    assert!(links.contains(&"</v1/pets?status=available>; rel=\"successor-version\""), "{answer:?}");
    assert!(links.contains(&"</docs/deprecation>; rel=\"deprecation\"; type=\"text/html\""), "{answer:?}");
}
