//! Calls about pets.

use std::time::Duration;

use petstore_testkit::{
    Answer, Client,
    grpc::{self, Channel, Code, Status, new_pet, pb},
    history::{Record, StoredPet},
};
use serde_json::json;
use tokio::time::Instant;

use super::{CALL_TIMEOUT, Caller, REPEATED, RETRY_INTERVAL, within};

impl Caller {
    /// Sends a pet to the gateway, and records the request.
    async fn post(&self, client: &Client, name: &str, category_id: i64) -> Answer {
        let sent = Instant::now();
        let answer = client.post("/v1/pets", &json!({"name": name, "categoryId": category_id})).await;
        self.history.add(Record::of_request(sent, 0, (0, 0), vec![pet(name, category_id)], Ok(&answer)));
        answer
    }

    /// Records a gRPC call: the identifiers of the pets that it added, or its refusal.
    fn record(&self, sent: Instant, adds: Vec<StoredPet>, answer: Result<&[i64], &Status>) {
        self.history.add(Record::of_call(sent, adds, answer));
    }

    /// Looks for a pet that was acknowledged, through the other core.
    async fn look_for(&self, id: i64, name: String) {
        if get_pet(&self.second, id).await.is_err_and(|refusal| refusal.code() == Code::NotFound) {
            self.answers().invisible.push(name);
        }
    }

    /// Creates pets with an `Idempotency-Key`, and retries until each is acknowledged.
    pub(super) async fn create_with_key(self) {
        while self.goes_on() {
            let number = self.next_number();
            let name = format!("with key {number}");
            let client = self.rest.with_header("idempotency-key", &format!("key-{number}"));
            let mut attempts = 0..REPEATED;
            let answer = loop {
                assert!(attempts.next().is_some(), "{name} is never added");
                let answer = self.post(&client, &name, number).await;
                if self.count("create with a key", answer.status() == 201).await {
                    break answer;
                }
                assert!(matches!(answer.status(), 409 | 503 | 504), "{answer:?}");
            };
            self.look_for(crate::pets::created(&answer), name).await;
        }
    }

    /// Creates pets without a key, and without retries: only the gateway retries.
    pub(super) async fn create_without_key(self) {
        while self.goes_on() {
            let number = self.next_number();
            let name = format!("without key {number}");
            let answer = self.post(&self.rest, &name, number).await;
            if self.count("create without a key", answer.status() == 201).await {
                self.look_for(crate::pets::created(&answer), name).await;
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
            let sent = Instant::now();
            let created = pets.create_pet(within(CALL_TIMEOUT, create_request(&name, number))).await;
            let id = created.map(|created| [created.into_inner().pet.unwrap().id]);
            self.record(sent, vec![pet(&name, number)], id.as_ref().map(<[_; 1]>::as_slice));
            if self.count("create over gRPC", id.is_ok()).await {
                self.look_for(id.unwrap()[0], name).await;
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
            let sent = Instant::now();
            let call = pets.create_pet(within(deadline, request));
            let created = tokio::time::timeout(hangs_up, call).await;
            if let Ok(Ok(created)) = created {
                self.count("create impatiently", true).await;
                let id = created.into_inner().pet.unwrap().id;
                self.record(sent, vec![pet(&name, number)], Ok(&[id]));
                self.look_for(id, name).await;
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
            let adds = names.iter().map(|name| pet(name, number)).collect();
            let sent = Instant::now();
            let created =
                pets.batch_create_pets(within(CALL_TIMEOUT, pb::BatchCreatePetsRequest { requests })).await;
            let ids = created.map(|created| created.into_inner().pets.iter().map(|pet| pet.id).collect());
            self.record(sent, adds, ids.as_ref().map(Vec::as_slice));
            if self.count("create a batch", ids.is_ok()).await {
                let ids = ids.unwrap();
                assert_eq!(ids.len(), names.len());
                for (id, name) in ids.into_iter().zip(names) {
                    self.look_for(id, name).await;
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
                let sent = Instant::now();
                let call = pets.import_pets(within(CALL_TIMEOUT, grpc::messages(vec![message.clone()])));
                let imported = call.await.map(|answer| answer.into_inner().last_line);
                let adds = || lines.clone().map(|line| pet(&format!("import line {line}"), line)).collect();
                match &imported {
                    Ok(position) if *position == last_line => self.record(sent, adds(), Ok(&[])),
                    Ok(_) => {}
                    Err(refusal) => self.record(sent, adds(), Err(refusal)),
                }
                if self.count("import", imported.is_ok_and(|position| position == last_line)).await {
                    break;
                }
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

fn pet(name: &str, category_id: i64) -> StoredPet {
    StoredPet { id: 0, name: name.to_owned(), category_id }
}

#[expect(deprecated, reason = "removed on REST alone")]
async fn get_pet(core: &Channel, pet_id: i64) -> Result<(), Status> {
    let request = within(CALL_TIMEOUT, pb::GetPetRequest { pet_id });
    pb::pet_store_client::PetStoreClient::new(core.clone()).get_pet(request).await.map(drop)
}
