//! The gRPC edge: its outcomes are those of REST, without plans.

use std::collections::BTreeMap;

use petstore_testkit::{
    Plan, TestShop,
    grpc::{
        self, Code, Request, ServingStatus, new_pet,
        pb::{CreatePetRequest, GetPetRequest, ListPetsRequest, Pet, PetStatus},
    },
};
use prost::Message;
use prost_types::{FileDescriptorSet, ServiceDescriptorProto};
use serde_json::json;

use crate::pets::add;

/// Returns the methods of the contract, by the names of their services.
pub(super) fn contract() -> BTreeMap<String, Vec<String>> {
    let files = FileDescriptorSet::decode(petstore_proto::FILE_DESCRIPTOR_SET).unwrap().file;
    let service = |package: &str, service: ServiceDescriptorProto| {
        let methods = service.method.iter().map(|method| method.name().to_owned()).collect();
        (format!("{package}.{}", service.name()), methods)
    };
    let services = files.into_iter().flat_map(|file| {
        let package = file.package().to_owned();
        file.service.into_iter().map(move |it| service(&package, it))
    });
    services.collect()
}

/// Returns the names of the public services.
fn services() -> Vec<String> {
    let services: Vec<_> = contract().into_keys().filter(|name| !name.contains(".internal.")).collect();
    assert!(services.iter().any(|name| name == "petstore.v1.PetStore"), "{services:?}");
    services
}

#[tokio::test]
async fn a_pet_created_on_one_edge_is_visible_on_the_other() {
    let shop = TestShop::open().await;
    let client = shop.client_on(Plan::Free).await;
    let mut pets = grpc::pet_store(shop.grpc_addr()).await;
    client
        .post("/v1/pets", &json!({"name": "Rex", "categoryId": i64::MIN, "status": "sold"}))
        .await
        .assert_status(201);
    let mut rex = Pet { id: 1, name: "Rex".into(), category_id: i64::MIN, ..Pet::default() };
    rex.set_status(PetStatus::Sold);
    assert_eq!(get(&shop, 1).await.unwrap(), rex);

    let pet = new_pet("Tom", Some(i64::MAX), PetStatus::Unspecified);
    let tom = pets
        .create_pet(CreatePetRequest { pet: Some(pet), ..Default::default() })
        .await
        .unwrap()
        .into_inner()
        .pet
        .unwrap();
    let listed = client.get("/v1/pets").await;
    assert_eq!(
        listed.json(),
        json!([
            {"id": 1, "name": "Rex", "categoryId": i64::MIN, "status": "sold"},
            {"id": tom.id, "name": "Tom", "categoryId": i64::MAX},
        ]),
        "{listed:?}"
    );
}

#[tokio::test]
async fn a_cursor_of_rest_is_a_page_token_of_grpc() {
    let shop = TestShop::open().await;
    let client = shop.client_on(Plan::Free).await;
    let wanted = add(&client, 3).await;
    let page_token = client.get("/v1/pets?limit=1").await.header("x-next-cursor").to_owned();
    let mut pets = grpc::pet_store(shop.grpc_addr()).await;
    let page =
        pets.list_pets(ListPetsRequest { page_token, ..Default::default() }).await.unwrap().into_inner();
    assert_eq!(page.pets.iter().map(|pet| pet.id).collect::<Vec<_>>(), wanted[1..]);
}

#[tokio::test]
async fn a_refusal_has_the_values_of_its_message_and_the_page_that_rest_links_to() {
    let shop = TestShop::open().await;
    let refused = get(&shop, 7).await.unwrap_err();
    assert_eq!(grpc::values(&refused), ["petId=7"]);
    let help = grpc::help(&refused);
    let rest = shop.client_on(Plan::Free).await.get("/v1/pets/7").await;
    assert!(rest.values("link").contains(&&*format!("<{help}>; rel=\"help\"")), "{rest:?}");
    shop.anonymous().get(&help).await.assert_status(200);
}

#[tokio::test]
async fn an_answer_carries_the_request_id_of_its_call() {
    let shop = TestShop::open().await;
    let mut pets = grpc::pet_store(shop.grpc_addr()).await;
    let named = |name: &'static str, page_size| {
        let mut request = Request::new(ListPetsRequest { page_size, ..Default::default() });
        request.metadata_mut().insert("x-request-id", name.parse().unwrap());
        request
    };
    let answer = pets.list_pets(named("call-0001", 1)).await.unwrap();
    assert_eq!(answer.metadata().get("x-request-id").unwrap(), "call-0001");
    let refusal = pets.list_pets(named("call-0002", -1)).await.unwrap_err();
    assert_eq!(refusal.metadata().get("x-request-id").unwrap(), "call-0002");
    assert_eq!(grpc::request_info(&refusal).as_deref(), Some("call-0002"));
    for unfit in ["short", "a name with spaces", "<script>alert</script>"] {
        let refusal = pets.list_pets(named(unfit, -1)).await.unwrap_err();
        assert_eq!(grpc::request_info(&refusal), None, "{unfit}");
        assert!(refusal.metadata().get("x-request-id").is_none(), "{unfit}");
    }
}

#[tokio::test]
async fn every_method_of_the_contract_is_served() {
    let shop = TestShop::open().await;
    let channel = grpc::channel(shop.grpc_addr()).await;
    for (service, methods) in contract() {
        for method in methods {
            let (path, empty) = (format!("/{service}/{method}"), vec![0; 5]);
            let fields = [("content-type", "application/grpc")];
            let head = grpc::raw_call(channel.clone(), &path, &fields, empty).await;
            let status = head.headers.get("grpc-status").map(|status| status.to_str().unwrap().parse());
            assert_ne!(status, Some(Ok(Code::Unimplemented as i32)), "{path}: {head:?}");
        }
    }
}

#[tokio::test]
async fn health_is_reported_per_service() {
    let shop = TestShop::open().await;
    for service in services().into_iter().chain([String::new()]) {
        // The service is listed immediately.
        assert_eq!(
            grpc::health(shop.grpc_addr(), &service).await.unwrap(),
            ServingStatus::Serving,
            "{service}"
        );
    }
    assert_eq!(
        grpc::health(shop.grpc_addr(), "petstore.v1.Nothing").await.unwrap_err().code(),
        Code::NotFound
    );
}

async fn get(shop: &TestShop, pet_id: i64) -> Result<Pet, grpc::Status> {
    #[expect(deprecated, reason = "GetPet stays on gRPC")]
    let answer = grpc::pet_store(shop.grpc_addr()).await.get_pet(GetPetRequest { pet_id }).await?;
    Ok(answer.into_inner().pet.expect("a pet"))
}
