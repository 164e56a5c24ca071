//! `BatchCreatePets`: several pets over gRPC, all or none.

use petstore_testkit::{
    Plan, TestShop,
    grpc::{
        self, Status, new_pet,
        pb::{BatchCreatePetsRequest, CreatePetRequest, NewPet, Pet, PetStatus},
    },
};
use serde_json::json;

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

async fn create(shop: &TestShop, pets: Vec<NewPet>) -> Result<Vec<Pet>, Status> {
    let request = |pet| CreatePetRequest { pet: Some(pet), ..Default::default() };
    let request = BatchCreatePetsRequest { requests: pets.into_iter().map(request).collect() };
    Ok(grpc::pet_store(shop.grpc_addr()).await.batch_create_pets(request).await?.into_inner().pets)
}
