//! `ImportPets`: the lines of a file over gRPC, each added once.

use petstore_testkit::{
    Plan, TestShop,
    grpc::{
        self, Code, Status, assert_refused, new_pet,
        pb::{ImportLine, ImportPetsRequest, ImportPetsResponse, ListPetsRequest, PetStatus, RejectedLine},
    },
};
use serde_json::json;

#[tokio::test]
async fn an_invalid_line_is_left_out_and_refused_as_on_rest() {
    let shop = TestShop::open().await;
    let client = shop.client_on(Plan::Free).await;
    let long: &str = &"x".repeat(256);
    let mut bad = message(&[1, 2, 3, 4]);
    let mut expected = Vec::new();
    for (line, name) in bad.lines.iter_mut().zip(["", "a\u{7f}", long]) {
        line.pet.as_mut().unwrap().name = name.to_owned();
        let rest = client.post("/v1/pets", &json!({"name": name, "categoryId": 1})).await;
        let (reason, message) = (rest.json()["code"].as_str().unwrap().to_owned(), rest.message());
        expected.push(RejectedLine { line: line.line, reason, message });
    }
    let answer = import(&shop, vec![bad, message(&[5])]).await.unwrap();
    assert_eq!(answer.rejected_lines, expected);
    assert_eq!((answer.created, answer.rejected, answer.last_line), (2, 3, 5));
    assert_eq!(names(&shop).await, ["line 4", "line 5"]);
}

#[tokio::test]
async fn a_strict_import_stops_before_the_first_invalid_line() {
    let shop = TestShop::open().await;
    let mut bad = message(&[3, 4, 5]);
    bad.lines[1].pet.as_mut().unwrap().category_id = None;
    let first = ImportPetsRequest { strict: true, ..message(&[1, 2]) };
    let answer = import(&shop, vec![first, bad, message(&[6])]).await.unwrap();
    let rejected = RejectedLine {
        line: 4,
        reason: "VALIDATION_FAILED".into(),
        message: "categoryId is required".into(),
    };
    assert_eq!(answer.rejected_lines, [rejected]);
    assert_eq!((answer.created, answer.last_line), (3, 3));
    assert_eq!(names(&shop).await, ["line 1", "line 2", "line 3"]);

    let mut at_once = ImportPetsRequest { import_id: "import-2".into(), strict: true, ..message(&[1]) };
    at_once.lines[0].pet = None;
    let answer = import(&shop, vec![at_once, message(&[2])]).await.unwrap();
    assert_eq!((answer.created, answer.last_line, answer.rejected), (0, 0, 1));
}

#[tokio::test]
async fn an_invalid_stream_is_refused() {
    let shop = TestShop::open().await;
    let nameless = ImportPetsRequest { import_id: String::new(), ..message(&[1]) };
    let other = ImportPetsRequest { import_id: "import-2".into(), ..message(&[2]) };
    let early = ImportPetsRequest { last_line: 1, ..message(&[2]) };
    let many: Vec<i64> = (1..=1_001).collect();
    for (messages, field) in [
        (vec![], "importId"),
        (vec![nameless], "importId"),
        (vec![message(&[]), other], "importId"),
        (vec![message(&[2, 1])], "lines"),
        (vec![message(&[0])], "lines"),
        (vec![message(&many)], "lines"),
        (vec![early], "lastLine"),
    ] {
        let refused = import(&shop, messages).await;
        assert_eq!(assert_refused(refused, Code::InvalidArgument, "VALIDATION_FAILED"), [field]);
    }
    assert!(names(&shop).await.is_empty());
}

fn message(lines: &[i64]) -> ImportPetsRequest {
    let line = |&line: &i64| {
        let pet = new_pet(format!("line {line}"), Some(1), PetStatus::Sold);
        ImportLine { line, pet: Some(pet) }
    };
    let lines = lines.iter().map(line).collect();
    ImportPetsRequest { import_id: "import-1".into(), lines, ..Default::default() }
}

async fn import(shop: &TestShop, messages: Vec<ImportPetsRequest>) -> Result<ImportPetsResponse, Status> {
    let messages = grpc::messages(messages);
    Ok(grpc::pet_store(shop.grpc_addr()).await.import_pets(messages).await?.into_inner())
}

async fn names(shop: &TestShop) -> Vec<String> {
    let request = ListPetsRequest { page_size: 100, ..Default::default() };
    let page = grpc::pet_store(shop.grpc_addr()).await.list_pets(request).await.unwrap().into_inner();
    page.pets.into_iter().map(|pet| pet.name).collect()
}
