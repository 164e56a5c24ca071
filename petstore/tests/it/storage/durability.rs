//! Durability: a pet that was answered with 201 is stored once, even if processes are killed or connections
//! cut.
//!
//! `PETSTORE_TEST_LONG=1` (`scripts/test --long`) runs more rounds.

use std::{
    collections::{HashMap, HashSet},
    hash::{BuildHasher, RandomState},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    time::Duration,
};

use petstore_testkit::{
    Client, Engine, Installation, Server, eventually,
    faults::{Fault, Proxy},
    free_port, grpc,
};
use serde_json::json;

use crate::{key_without_limits, pets::created, petstore_on};

/// Time within which a gateway recovers when its core is back, on a busy machine.
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(30);

/// Returns the number of rounds, in the short or in the long form.
fn rounds(short: usize, long: usize) -> usize {
    if std::env::var_os("PETSTORE_TEST_LONG").is_some() { long } else { short }
}

#[tokio::test]
async fn an_answer_cut_off_after_the_commit_adds_one_pet() {
    for engine in Engine::ALL {
        let installation = petstore_on(engine).await;
        let core = start_core(&installation, "127.0.0.1:0").await;
        let proxy = Proxy::to(core.address("gRPC")).await;
        let gateway = start_gateway(&installation, &proxy.address().to_string()).await;
        let client = gateway.client(&key_without_limits(&installation).await);
        client.get("/v1/pets").await.assert_status(200);

        let cuts = rounds(30, 200);
        let mut added = HashSet::new();
        for number in 0..cuts {
            // A gateway retries at most a fifth of its calls: these are the other four.
            client.sends(5, "/v1/pets?limit=1").await;
            // Cuts in place of the answer, or at any point of its frames.
            proxy.set(Fault::CutOnce { response_bytes: number as u64 % 40 * 3 }).await;
            let pet = json!({"name": format!("Pet {number}"), "categoryId": 1});
            assert!(added.insert(created(&client.post("/v1/pets", &pet).await)), "{engine:?}: {number}");
        }
        proxy.set(Fault::None).await;
        assert!(proxy.cuts() >= cuts as u64 * 3 / 4, "only {} cuts", proxy.cuts());
        let stored = all_pets(&core).await;
        assert_eq!(stored.len(), cuts, "{engine:?}");
        assert_eq!(stored.into_keys().collect::<HashSet<_>>(), added);
    }
}

#[tokio::test]
async fn a_core_killed_under_load_loses_and_duplicates_nothing() {
    for engine in Engine::ALL {
        let installation = petstore_on(engine).await;
        // No other test takes this port while the core is down.
        let address = format!("127.0.0.1:{}", free_port());
        let mut core = start_core(&installation, &address).await;
        let gateway = start_gateway(&installation, &address).await;
        let client = gateway.client(&key_without_limits(&installation).await);
        client.get("/v1/pets").await.assert_status(200);

        let load = Load::start(&client);
        for round in 0..rounds(3, 20) {
            let before = load.acknowledged();
            let some_time = RandomState::new().hash_one(round) % 300;
            tokio::time::sleep(Duration::from_millis(some_time)).await;
            core.crash().await;
            core = start_core(&installation, &address).await;
            eventually(RECOVERY_TIMEOUT, async || {
                if load.acknowledged() > before { Ok(()) } else { Err("nothing is added".to_owned()) }
            })
            .await;
        }
        let acknowledged = load.stop().await;
        let stored = all_pets(&core).await;
        for (id, pet) in &acknowledged {
            assert_eq!(stored.get(id), Some(pet), "{engine:?}: acknowledged, and lost or changed");
        }
        let names: HashSet<_> = stored.values().map(|(name, _)| name).collect();
        assert_eq!(names.len(), stored.len(), "{engine:?}: a pet was added twice");
        println!("{engine:?}: {} acknowledged, {} stored", acknowledged.len(), stored.len());
    }
}

/// Clients that each add one pet after the other, and retry with the same key until it is acknowledged.
struct Load {
    is_over: Arc<AtomicBool>,
    acknowledged: Arc<Mutex<HashMap<i64, (String, i64)>>>,
    clients: Vec<tokio::task::JoinHandle<()>>,
}

impl Load {
    fn start(client: &Client) -> Self {
        let (is_over, acknowledged) =
            (Arc::new(AtomicBool::new(false)), Arc::<Mutex<HashMap<_, _>>>::default());
        let numbers = Arc::new(AtomicI64::new(0));
        let clients = (0..4).map(|_| {
            let (client, is_over) = (client.clone(), Arc::clone(&is_over));
            let (acknowledged, numbers) = (Arc::clone(&acknowledged), Arc::clone(&numbers));
            tokio::spawn(async move {
                while !is_over.load(Ordering::Relaxed) {
                    let number = numbers.fetch_add(1, Ordering::Relaxed);
                    let pet = (format!("Pet {number}"), number);
                    let id = add(&client, &pet).await;
                    let earlier = acknowledged.lock().unwrap().insert(id, pet);
                    assert_eq!(earlier, None, "the id {id} was assigned twice");
                }
            })
        });
        let clients = clients.collect();
        Self { is_over, acknowledged, clients }
    }

    fn acknowledged(&self) -> usize {
        self.acknowledged.lock().unwrap().len()
    }

    async fn stop(self) -> HashMap<i64, (String, i64)> {
        self.is_over.store(true, Ordering::Relaxed);
        for client in self.clients {
            client.await.unwrap();
        }
        self.acknowledged.lock().unwrap().clone()
    }
}

async fn add(client: &Client, (name, category_id): &(String, i64)) -> i64 {
    let client = client.with_header("idempotency-key", &name.replace(' ', "-"));
    let pet = json!({"name": name, "categoryId": category_id});
    for _ in 0..150 {
        let answer = client.post("/v1/pets", &pet).await;
        match answer.status() {
            201 => return created(&answer),
            // The client has to repeat it.
            409 | 503 | 504 => tokio::time::sleep(Duration::from_millis(100)).await,
            _ => panic!("{answer:?}"),
        }
    }
    panic!("{name} was never added");
}

/// Returns every pet that the core keeps, with its name and category.
async fn all_pets(core: &Server) -> HashMap<i64, (String, i64)> {
    let mut pets = grpc::pet_store(core.address("gRPC")).await;
    let (mut all, mut page_token) = (HashMap::new(), String::new());
    loop {
        let request = grpc::pb::ListPetsRequest { page_size: 100, page_token, status: 0 };
        let page = pets.list_pets(request).await.unwrap().into_inner();
        all.extend(page.pets.into_iter().map(|pet| (pet.id, (pet.name, pet.category_id))));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return all;
        }
    }
}

async fn start_core(installation: &Installation, address: &str) -> Server {
    installation.start(&["core", "--grpc-addr", address, "--admin-addr", "127.0.0.1:0"]).await
}

async fn start_gateway(installation: &Installation, core: &str) -> Server {
    let core = format!("http://{core}");
    let ports = ["--http-addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0"];
    let gateway = installation.start(&[["gateway", "--core-url", &core].as_slice(), &ports].concat()).await;
    gateway.ready().await;
    gateway
}
