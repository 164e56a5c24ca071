//! `BatchCreatePets`: several pets over gRPC, all or none.

use petstore_testkit::{
    Plan, TestShop,
    grpc::{
        self, Code, Status, assert_refused, new_pet,
        pb::{BatchCreatePetsRequest, CreatePetRequest, NewPet, Pet, PetStatus},
    },
};
use serde_json::json;

use super::ids;

#[tokio::test]
async fn a_batch_is_added_in_order_and_visible_on_rest() {
    let shop = TestShop::open().await;
    let client = shop.client_on(Plan::Free).await;
    let rex = new_pet("Rex", Some(i64::MIN), PetStatus::Sold);
    let tom = new_pet("Tom 🐈", Some(0), 0);
    let pets = create(&shop, vec![rex.clone(), tom, rex]).await.unwrap();
    assert_eq!(pets.iter().map(|pet| pet.id).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(
        client.get("/v1/pets").await.json(),
        json!([
            {"id": 1, "name": "Rex", "categoryId": i64::MIN, "status": "sold"},
            {"id": 2, "name": "Tom 🐈", "categoryId": 0},
            {"id": 3, "name": "Rex", "categoryId": i64::MIN, "status": "sold"},
        ])
    );
}

#[tokio::test]
async fn one_invalid_pet_fails_the_batch_and_is_named_by_its_index() {
    let shop = TestShop::open().await;
    let mut pets = vec![named("Rex"); 1_000];
    pets[17].name = " ".into();
    pets[999] = new_pet("a\0", None, 9);
    let refused = create(&shop, pets).await;
    assert_eq!(
        refused.as_ref().unwrap_err().message(),
        "requests[17].name must not be blank; requests[999].name must not contain control characters; \
         requests[999].categoryId is required; requests[999].status must be one of available, pending, sold"
    );
    assert_eq!(
        assert_refused(refused, Code::InvalidArgument, "VALIDATION_FAILED"),
        ["requests[17].name", "requests[999].name", "requests[999].categoryId", "requests[999].status"]
    );
    assert!(ids(&shop.client_on(Plan::Free).await.get("/v1/pets").await).is_empty(), "none was added");
}

#[tokio::test]
async fn a_batch_has_1_to_1000_pets() {
    let shop = TestShop::open().await;
    for size in [0, 1_001] {
        let refused = create(&shop, vec![named("Rex"); size]).await;
        assert_eq!(assert_refused(refused, Code::InvalidArgument, "VALIDATION_FAILED"), ["requests"]);
    }
    let pets = create(&shop, vec![named("Rex"); 1_000]).await.unwrap();
    assert_eq!(pets.last().map(|pet| pet.id), Some(1_000));
}

#[tokio::test]
async fn a_batch_has_no_request_ids() {
    let shop = TestShop::open().await;
    let request = CreatePetRequest { pet: Some(named("Rex")), request_id: "once".into() };
    let request = BatchCreatePetsRequest { requests: vec![request] };
    let refused = grpc::pet_store(shop.grpc_addr()).await.batch_create_pets(request).await;
    assert_eq!(
        assert_refused(refused, Code::InvalidArgument, "VALIDATION_FAILED"),
        ["requests[0].requestId"]
    );
}

#[tokio::test]
async fn a_batch_request_without_a_pet_is_refused_as_by_create_pet() {
    let shop = TestShop::open().await;
    let request = BatchCreatePetsRequest { requests: vec![CreatePetRequest::default()] };
    let refused = grpc::pet_store(shop.grpc_addr()).await.batch_create_pets(request).await.unwrap_err();
    assert_eq!(refused.message(), "requests[0].name must not be blank; requests[0].categoryId is required");
}

fn named(name: &str) -> NewPet {
    new_pet(name, Some(1), 0)
}

async fn create(shop: &TestShop, pets: Vec<NewPet>) -> Result<Vec<Pet>, Status> {
    let request = |pet| CreatePetRequest { pet: Some(pet), ..Default::default() };
    let request = BatchCreatePetsRequest { requests: pets.into_iter().map(request).collect() };
    Ok(grpc::pet_store(shop.grpc_addr()).await.batch_create_pets(request).await?.into_inner().pets)
}
