//! Parity of REST and gRPC: requests that both can express have the same outcome, reason and text.
//!
//! Requests that only one of them can express are left out: page sizes other than 1 to 100, an empty cursor,
//! a name that is absent or not a string, a status that is a number or an unknown word, and idempotency keys,
//! which each edge names differently.

use std::fmt::Write as _;

use petstore_testkit::{
    Answer, Client, TestShop,
    grpc::{
        self, Channel, Status, new_pet,
        pb::{
            self, CreatePetRequest, GetPetRequest, ListPetsRequest, PetStatus,
            pet_store_client::PetStoreClient,
        },
    },
};
use proptest::{prelude::*, strategy::ValueTree, test_runner::TestRunner};
use serde_json::{Value, json};

/// Number of random cases of each kind. Every run takes the same.
const CASES: usize = 150;

const STATUSES: [(Option<&str>, PetStatus); 4] = [
    (None, PetStatus::Unspecified),
    (Some("available"), PetStatus::Available),
    (Some("pending"), PetStatus::Pending),
    (Some("sold"), PetStatus::Sold),
];

#[tokio::test]
async fn a_new_pet_is_judged_equally_on_both_edges() {
    let mut edges = Edges::open().await;
    let long = "x".repeat(256);
    let dogs = "\u{1F415}".repeat(255);
    let names = [
        "Rex", "", " ", "\u{2003}", "a\u{0}", "\u{7f}", "\u{85}", &long, &dogs, "e\u{301}", "\"", "\u{feff}",
    ];
    for name in names {
        for status in STATUSES {
            for category in [Some(0), Some(i64::MIN), Some(i64::MAX)] {
                edges.create(name, category, status).await;
            }
        }
    }
    edges.create("Rex", None, STATUSES[0]).await;

    let any_name = prop_oneof![any::<String>(), "[\\PC\u{0}-\u{20}\u{7f}-\u{a0}]{0,4}", ".{250,260}"];
    let cases = (any_name, any::<i64>(), proptest::sample::select(STATUSES.to_vec()));
    for (name, category, status) in samples(&cases) {
        edges.create(&name, Some(category), status).await;
    }
}

#[tokio::test]
async fn a_page_is_judged_equally_on_both_edges() {
    let mut edges = Edges::open().await;
    for number in 0..12 {
        edges.create("Rex", Some(number), STATUSES[usize::try_from(number).unwrap() % 4]).await;
    }
    let mut tokens = vec![None, Some("x".to_owned()), Some("\u{e9}".to_owned()), Some("A".repeat(600))];
    for status in STATUSES {
        let page = edges.grpc_page(1, "", status.1).await.unwrap();
        tokens.push(Some(page.next_page_token.clone()).filter(|token| !token.is_empty()));
        tokens.push(Some(format!("{}A", page.next_page_token)));
        tokens.push(page.next_page_token.get(1..).map(str::to_owned).filter(|token| !token.is_empty()));
    }
    for token in &tokens {
        for status in STATUSES {
            for size in [1, 2, 100] {
                edges.list(size, token.as_deref(), status).await;
            }
        }
    }
    let cases = (1..=100_i32, "\\PC{1,60}", proptest::sample::select(STATUSES.to_vec()));
    for (size, token, status) in samples(&cases) {
        edges.list(size, Some(&token), status).await;
    }
}

#[tokio::test]
async fn an_id_is_judged_equally_on_both_edges() {
    let mut edges = Edges::open().await;
    edges.create("Rex", Some(7), STATUSES[1]).await;
    for id in [1, 2, 3, 0, -1, i64::MIN, i64::MAX].into_iter().chain(samples(&any::<i64>())) {
        edges.get(id).await;
    }
}

fn samples<S: Strategy>(strategy: &S) -> Vec<S::Value> {
    let mut runner = TestRunner::deterministic();
    (0..CASES).map(|_| strategy.new_tree(&mut runner).unwrap().current()).collect()
}

/// Answer of an edge, in terms that both have: a body, or the reason and the text of a refusal.
type Verdict = Result<Value, (String, String)>;

/// Both edges of one service.
struct Edges {
    rest: Client,
    grpc: PetStoreClient<Channel>,
    _shop: TestShop,
}

impl Edges {
    async fn open() -> Self {
        let shop = TestShop::open().await;
        let rest = shop.client_with(1_000_000, 1_000_000).await;
        Self { rest, grpc: grpc::pet_store(shop.grpc_addr()).await, _shop: shop }
    }

    async fn create(&mut self, name: &str, category: Option<i64>, (word, status): (Option<&str>, PetStatus)) {
        let mut body = json!({ "name": name });
        if let Some(category) = category {
            body["categoryId"] = category.into();
        }
        if let Some(word) = word {
            body["status"] = word.into();
        }
        let rest = verdict(&self.rest.post("/v1/pets", &body).await);
        let pet = new_pet(name.to_owned(), category, status);
        let answer = self.grpc.create_pet(CreatePetRequest { pet: Some(pet), ..Default::default() }).await;
        let grpc = answer
            .map(|answer| pet_json(answer.into_inner().pet.as_ref().unwrap()))
            .map_err(|status| refusal(&status));
        assert_eq!(rest.map(without_id), grpc.map(without_id), "{body}");
    }

    async fn list(&mut self, size: i32, token: Option<&str>, (word, status): (Option<&str>, PetStatus)) {
        let mut path = format!("/v1/pets?limit={size}");
        for (name, value) in [("cursor", token), ("status", word)] {
            if let Some(value) = value {
                let _ = write!(path, "&{name}={}", percent_encoded(value));
            }
        }
        let answer = self.rest.get(&path).await;
        let next = answer.find("x-next-cursor").unwrap_or_default().to_owned();
        let rest = verdict(&answer).map(|pets| (pets, next));
        let grpc =
            self.grpc_page(size, token.unwrap_or_default(), status).await.map_err(|status| refusal(&status));
        let grpc = grpc.map(|page| (page.pets.iter().map(pet_json).collect(), page.next_page_token));
        assert_eq!(rest, grpc, "{path}");
    }

    async fn get(&mut self, id: i64) {
        let rest = verdict(&self.rest.get(&format!("/v1/pets/{id}")).await);
        #[expect(deprecated, reason = "GetPet stays on gRPC")]
        let answer = self.grpc.get_pet(GetPetRequest { pet_id: id }).await;
        let grpc = answer
            .map(|answer| pet_json(answer.into_inner().pet.as_ref().unwrap()))
            .map_err(|status| refusal(&status));
        assert_eq!(rest, grpc, "{id}");
    }

    async fn grpc_page(
        &mut self,
        page_size: i32,
        token: &str,
        status: PetStatus,
    ) -> Result<pb::ListPetsResponse, Status> {
        let request = ListPetsRequest { page_size, page_token: token.to_owned(), status: status.into() };
        self.grpc.list_pets(request).await.map(grpc::Response::into_inner)
    }
}

#[track_caller]
fn verdict(answer: &Answer) -> Verdict {
    let body = answer.json();
    if answer.status() < 300 {
        Ok(body)
    } else {
        Err((body["code"].as_str().unwrap().to_owned(), answer.message()))
    }
}

fn refusal(status: &Status) -> (String, String) {
    (grpc::reason(status), status.message().to_owned())
}

fn pet_json(pet: &pb::Pet) -> Value {
    let mut body = json!({"id": pet.id, "name": pet.name, "categoryId": pet.category_id});
    if let Some((Some(word), _)) = STATUSES.iter().find(|(_, status)| *status == pet.status()) {
        body["status"] = (*word).into();
    }
    body
}

/// Removes the identifier, because each edge adds its own pet.
fn without_id(mut pet: Value) -> Value {
    assert!(pet.as_object_mut().unwrap().remove("id").is_some());
    pet
}

fn percent_encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        let _ = write!(encoded, "%{byte:02X}");
        encoded
    })
}
