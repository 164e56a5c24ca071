//! The gRPC edge: its outcomes are those of REST, without plans.

use std::collections::BTreeMap;

use petstore_testkit::{
    Plan, TestShop,
    grpc::{
        self, Code, Request, ServingStatus, assert_refused, new_pet,
        pb::{CreatePetRequest, GetPetRequest, ListPetsRequest, NewPet, Pet, PetStatus},
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
async fn a_page_has_twenty_pets_by_default_and_at_most_a_hundred() {
    let shop = TestShop::open().await;
    add(&shop.client_on(Plan::Business).await, 105).await;
    let mut pets = grpc::pet_store(shop.grpc_addr()).await;
    for (page_size, count) in [(0, 20), (1, 1), (100, 100), (101, 100), (i32::MAX, 100)] {
        let page =
            pets.list_pets(ListPetsRequest { page_size, ..Default::default() }).await.unwrap().into_inner();
        assert_eq!(page.pets.len(), count, "page_size {page_size}");
    }
    for page_size in [-1, i32::MIN] {
        let refused = pets.list_pets(ListPetsRequest { page_size, ..Default::default() }).await;
        assert_eq!(assert_refused(refused, Code::InvalidArgument, "INVALID_PARAMETER"), ["pageSize"]);
    }
}

#[tokio::test]
async fn a_walk_along_the_page_tokens_sees_every_pet_once() {
    let shop = TestShop::open().await;
    let wanted = add(&shop.client_on(Plan::Free).await, 10).await;
    let mut pets = grpc::pet_store(shop.grpc_addr()).await;
    let (mut seen, mut page_token) = (Vec::new(), String::new());
    for _ in 0..wanted.len() {
        let request = ListPetsRequest { page_size: 4, page_token, ..Default::default() };
        let page = pets.list_pets(request).await.unwrap().into_inner();
        seen.extend(page.pets.iter().map(|pet| pet.id));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    assert_eq!(seen, wanted);
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
async fn a_page_token_that_is_damaged_or_of_another_filter_is_refused() {
    let shop = TestShop::open().await;
    add(&shop.client_on(Plan::Free).await, 3).await;
    let mut pets = grpc::pet_store(shop.grpc_addr()).await;
    let first =
        pets.list_pets(ListPetsRequest { page_size: 1, ..Default::default() }).await.unwrap().into_inner();
    for (page_token, status) in [("x".to_owned(), 0), (first.next_page_token, PetStatus::Sold.into())] {
        let refused = pets.list_pets(ListPetsRequest { page_token, status, ..Default::default() }).await;
        assert_eq!(assert_refused(refused, Code::InvalidArgument, "INVALID_CURSOR"), ["cursor"]);
    }
}

#[tokio::test]
async fn a_status_filter_restricts_the_list() {
    let shop = TestShop::open().await;
    let client = shop.client_on(Plan::Free).await;
    crate::pets::add_with_status(&client, 2, "sold").await;
    let wanted = crate::pets::add_with_status(&client, 2, "pending").await;
    let mut pets = grpc::pet_store(shop.grpc_addr()).await;
    let request = ListPetsRequest { status: PetStatus::Pending.into(), ..Default::default() };
    let page = pets.list_pets(request).await.unwrap().into_inner();
    assert_eq!(page.pets.iter().map(|pet| pet.id).collect::<Vec<_>>(), wanted);
}

#[tokio::test]
async fn an_unknown_status_number_is_not_a_valid_value() {
    let shop = TestShop::open().await;
    let mut pets = grpc::pet_store(shop.grpc_addr()).await;
    for status in [4, -1, i32::MAX] {
        let listed = pets.list_pets(ListPetsRequest { status, ..Default::default() }).await;
        assert_eq!(assert_refused(listed, Code::InvalidArgument, "VALIDATION_FAILED"), ["status"]);
        let created = create(&shop, Some(new_pet("Rex", Some(1), status))).await;
        assert_eq!(assert_refused(created, Code::InvalidArgument, "VALIDATION_FAILED"), ["status"]);
    }
}

#[tokio::test]
async fn every_wrong_member_is_named_as_in_json() {
    let shop = TestShop::open().await;
    let long = "x".repeat(256);
    for (pet, named) in [
        (Some(new_pet("Rex", None, 0)), ["categoryId"].as_slice()),
        (Some(new_pet(long, Some(1), 0)), &["name"]),
        (Some(new_pet("\u{7}", Some(1), 0)), &["name"]),
        (Some(new_pet(String::new(), None, 9)), &["name", "categoryId", "status"]),
    ] {
        let mut violations =
            assert_refused(create(&shop, pet).await, Code::InvalidArgument, "VALIDATION_FAILED");
        violations
            .sort_by_key(|field| ["name", "categoryId", "status"].iter().position(|known| known == field));
        assert_eq!(violations, named);
    }
    assert_refused(create(&shop, None).await, Code::InvalidArgument, "VALIDATION_FAILED");
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
async fn both_edges_refuse_a_wrong_value_with_the_same_words() {
    let shop = TestShop::open().await;
    let client = shop.client_on(Plan::Free).await;
    for name in ["", " ", "a\u{0}"] {
        let rest = client.post("/v1/pets", &json!({"name": name, "categoryId": 1})).await;
        let grpc = create(&shop, Some(new_pet(name, Some(1), 0))).await;
        assert_eq!(rest.message(), grpc.unwrap_err().message(), "{rest:?}");
    }
}

#[tokio::test]
async fn a_pet_that_does_not_exist_is_not_found() {
    let shop = TestShop::open().await;
    for id in [i64::MIN, 0, 1, i64::MAX] {
        assert_refused(get(&shop, id).await, Code::NotFound, "PET_NOT_FOUND");
    }
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
async fn reflection_lists_the_public_services() {
    let shop = TestShop::open().await;
    let channel = grpc::channel(shop.grpc_addr()).await;
    let listed = [grpc::services(channel.clone()).await, grpc::services_alpha(channel).await];
    for services in listed.map(Result::unwrap) {
        for name in self::services().into_iter().chain(["grpc.health.v1.Health".to_owned()]) {
            assert!(services.contains(&name), "{name}: {services:?}");
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

async fn create(shop: &TestShop, pet: Option<NewPet>) -> Result<Pet, grpc::Status> {
    let answer = grpc::pet_store(shop.grpc_addr())
        .await
        .create_pet(CreatePetRequest { pet, ..Default::default() })
        .await?;
    Ok(answer.into_inner().pet.expect("a pet"))
}

async fn get(shop: &TestShop, pet_id: i64) -> Result<Pet, grpc::Status> {
    #[expect(deprecated, reason = "GetPet stays on gRPC")]
    let answer = grpc::pet_store(shop.grpc_addr()).await.get_pet(GetPetRequest { pet_id }).await?;
    Ok(answer.into_inner().pet.expect("a pet"))
}
