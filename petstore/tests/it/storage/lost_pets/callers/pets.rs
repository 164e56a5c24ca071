//! Calls about pets.

use std::time::Duration;

use petstore_testkit::{
    grpc::{self, Channel, Code, Status, new_pet, pb},
    ledger::StoredPet,
};
use serde_json::json;

use super::{CALL_TIMEOUT, Caller, REPEATED, RETRY_INTERVAL, within};

impl Caller {
    /// Records a pet that was acknowledged, and looks for it through the other core.
    async fn acknowledge(&self, id: i64, name: String, category_id: i64) {
        let found = get_pet(&self.second, id).await;
        let mut answers = self.answers();
        if found.is_err_and(|refusal| refusal.code() == Code::NotFound) {
            answers.invisible.push(name.clone());
        }
        answers.pets.acknowledge(StoredPet { id, name, category_id });
    }

    /// Creates pets with an `Idempotency-Key`, and retries until each is acknowledged.
    pub(super) async fn create_with_key(self) {
        while self.goes_on() {
            let number = self.next_number();
            let name = format!("with key {number}");
            let client = self.rest.with_header("idempotency-key", &format!("key-{number}"));
            let body = json!({"name": name, "categoryId": number});
            let mut attempts = 0..REPEATED;
            let answer = loop {
                assert!(attempts.next().is_some(), "{name} is never added");
                let answer = client.post("/v1/pets", &body).await;
                if self.count("create with a key", answer.status() == 201).await {
                    break answer;
                }
                assert!(matches!(answer.status(), 409 | 503 | 504), "{answer:?}");
            };
            self.acknowledge(crate::pets::created(&answer), name, number).await;
        }
    }

    /// Creates pets without a key, and without retries: only the gateway retries.
    pub(super) async fn create_without_key(self) {
        while self.goes_on() {
            let number = self.next_number();
            let name = format!("without key {number}");
            let answer = self.rest.post("/v1/pets", &json!({"name": name, "categoryId": number})).await;
            if self.count("create without a key", answer.status() == 201).await {
                self.acknowledge(crate::pets::created(&answer), name, number).await;
            } else {
                assert!(matches!(answer.status(), 503 | 504), "{answer:?}");
            }
        }
    }

    pub(super) async fn create_over_grpc(self) {
        let mut pets = pb::pet_store_client::PetStoreClient::new(self.first.clone());
        while self.goes_on() {
            let number = self.next_number();
            let name = format!("over gRPC {number}");
            let created = pets.create_pet(within(CALL_TIMEOUT, create_request(&name, number))).await;
            if self.count("create over gRPC", created.is_ok()).await {
                let pet = created.unwrap().into_inner().pet.unwrap();
                self.acknowledge(pet.id, name, number).await;
            }
        }
    }

    /// Gives up at a random time of the call: the client closes the connection, or its deadline passes.
    pub(super) async fn create_impatiently(self) {
        let mut pets = pb::pet_store_client::PetStoreClient::new(self.first.clone());
        while self.goes_on() {
            let number = self.next_number();
            let name = format!("impatiently {number}");
            let moment = Duration::from_micros(250 << (number % 10));
            let (deadline, hangs_up) =
                if number % 2 == 0 { (moment, CALL_TIMEOUT) } else { (CALL_TIMEOUT, moment) };
            let mut request = create_request(&name, number);
            if number % 3 == 0 {
                request.request_id = format!("impatient-{number}");
            }
            let call = pets.create_pet(within(deadline, request));
            let created = tokio::time::timeout(hangs_up, call).await;
            if let Ok(Ok(created)) = created {
                self.count("create impatiently", true).await;
                self.acknowledge(created.into_inner().pet.unwrap().id, name, number).await;
            } else {
                self.count("create impatiently", false).await;
            }
        }
    }

    pub(super) async fn create_batches(self) {
        let mut pets = pb::pet_store_client::PetStoreClient::new(self.first.clone());
        while self.goes_on() {
            let number = self.next_number();
            let names = ["a", "b", "c"].map(|part| format!("batch {number} {part}"));
            let requests = names.iter().map(|name| create_request(name, number)).collect();
            let created =
                pets.batch_create_pets(within(CALL_TIMEOUT, pb::BatchCreatePetsRequest { requests })).await;
            if self.count("create a batch", created.is_ok()).await {
                let created = created.unwrap().into_inner().pets;
                assert_eq!(created.len(), names.len());
                for (pet, name) in created.into_iter().zip(names) {
                    self.acknowledge(pet.id, name, number).await;
                }
            }
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
    }

    /// Sends the same lines again until they are acknowledged.
    pub(super) async fn import(self) {
        let mut pets = pb::pet_store_client::PetStoreClient::new(self.first.clone());
        let mut last_line = 0;
        while self.goes_on() {
            let lines = last_line + 1..=last_line + 3;
            last_line += 3;
            let line =
                |line| pb::ImportLine { line, pet: create_request(&format!("import line {line}"), line).pet };
            let message = pb::ImportPetsRequest {
                import_id: "import".to_owned(),
                lines: lines.clone().map(line).collect(),
                ..Default::default()
            };
            let mut attempts = 0..REPEATED;
            loop {
                assert!(attempts.next().is_some(), "line {last_line} is never added");
                let call = pets.import_pets(within(CALL_TIMEOUT, grpc::messages(vec![message.clone()])));
                let imported = call.await.map(|answer| answer.into_inner().last_line);
                if self.count("import", imported.is_ok_and(|position| position == last_line)).await {
                    break;
                }
            }
            for line in lines {
                self.answers().pets.acknowledge_name(format!("import line {line}"), line);
            }
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
    }

    pub(super) async fn list_and_get(self) {
        while self.goes_on() {
            let page = self.rest.get("/v1/pets?limit=5").await;
            self.count("list pets", page.status() == 200).await;
            let page = self.rest.get("/v1/pets?limit=5&status=sold").await;
            self.count("list pets of a status", page.status() == 200).await;
            let one = get_pet(&self.first, 1).await;
            self.count("get a pet", one.is_ok()).await;
            tokio::time::sleep(RETRY_INTERVAL / 4).await;
        }
    }
}

pub(super) fn create_request(name: &str, number: i64) -> pb::CreatePetRequest {
    let pet = new_pet(name.to_owned(), Some(number), 0);
    pb::CreatePetRequest { pet: Some(pet), request_id: String::new() }
}

#[expect(deprecated, reason = "removed on REST alone")]
async fn get_pet(core: &Channel, pet_id: i64) -> Result<(), Status> {
    let request = within(CALL_TIMEOUT, pb::GetPetRequest { pet_id });
    pb::pet_store_client::PetStoreClient::new(core.clone()).get_pet(request).await.map(drop)
}
