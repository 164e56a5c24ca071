//! `Idempotency-Key` on `POST /v1/pets`, and `request_id` on gRPC.

use petstore_testkit::{
    Answer, Client, Plan, TestShop,
    grpc::{self, Code, new_pet, pb::CreatePetRequest},
};
use serde_json::{Value, json};

use crate::pets::{created, ids};

const KEY: &str = "idempotency-key";

async fn post(client: &Client, key: &str, pet: &Value) -> Answer {
    client.with_header(KEY, key).post("/v1/pets", pet).await
}

fn rex() -> Value {
    json!({"name": "Rex", "categoryId": 7, "status": "sold"})
}

#[tokio::test]
async fn a_repeated_request_adds_no_second_pet_and_its_answer_says_so() {
    let shop = TestShop::open().await;
    let client = shop.client_on(Plan::Free).await;
    let first = post(&client, "k-1", &rex()).await;
    let id = created(&first);
    assert!(first.values("idempotency-replayed").is_empty(), "{first:?}");

    let body = r#" {"status":"sold", "x":[1], "categoryId":7,"n\u0061me":"Rex"} "#;
    let again = client.with_header(KEY, "k-1").post_text("/v1/pets", body).await;
    again.assert_status(201);
    assert_eq!(again.json(), first.json());
    assert_eq!(again.header("idempotency-replayed"), "true");
    assert_eq!(again.header("location"), format!("/v1/pets/{id}"));
    assert_eq!(ids(&client.get("/v1/pets").await), [id]);
}

#[tokio::test]
async fn another_pet_with_the_same_key_is_refused_and_not_stored() {
    let shop = TestShop::open().await;
    let client = shop.client_on(Plan::Free).await;
    created(&post(&client, "k-1", &rex()).await);
    for other in [
        json!({"name": "rex", "categoryId": 7, "status": "sold"}),
        json!({"name": "Rex", "categoryId": 8, "status": "sold"}),
        json!({"name": "Rex", "categoryId": 7, "status": "pending"}),
        json!({"name": "Rex", "categoryId": 7}),
    ] {
        post(&client, "k-1", &other).await.assert_error(422, "IDEMPOTENCY_KEY_REUSED");
    }
    assert_eq!(ids(&client.get("/v1/pets").await).len(), 1);
}

#[tokio::test]
async fn a_key_belongs_to_its_account_and_all_its_keys_share_it() {
    let shop = TestShop::open().await;
    let account = shop.account_on(Plan::Free).await;
    let (one, same) = (shop.client_of(&account).await, shop.client_of(&account).await);
    let other = shop.client_on(Plan::Free).await;
    let id = created(&post(&one, "k-1", &rex()).await);
    assert_eq!(created(&post(&same, "k-1", &rex()).await), id);
    assert_ne!(created(&post(&other, "k-1", &rex()).await), id);
}

#[tokio::test]
async fn a_request_id_makes_a_grpc_creation_idempotent() {
    let shop = TestShop::open().await;
    let mut pets = grpc::pet_store(shop.grpc_addr()).await;
    let request = |request_id: &str, name: &str| CreatePetRequest {
        pet: Some(new_pet(name.to_owned(), Some(1), 0)),
        request_id: request_id.to_owned(),
    };
    let first = pets.create_pet(request("r-1", "Rex")).await.unwrap().into_inner();
    let again = pets.create_pet(request("r-1", "Rex")).await.unwrap().into_inner();
    assert_eq!((first.replayed, again.replayed), (false, true));
    assert_eq!(first.pet, again.pet);
    let reused = pets.create_pet(request("r-1", "Mia")).await;
    grpc::assert_refused(reused, Code::AlreadyExists, "IDEMPOTENCY_KEY_REUSED");
    let invalid = pets.create_pet(request("r 1", "Rex")).await;
    let named = grpc::assert_refused(invalid, Code::InvalidArgument, "INVALID_IDEMPOTENCY_KEY");
    assert_eq!(named, ["requestId"]);
}
