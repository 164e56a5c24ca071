//! Durability: a pet that was answered with 201 is stored once, even if processes are killed or connections
//! cut.
//!
//! `PETSTORE_TEST_LONG=1` (`scripts/test --long`) runs more rounds.

use std::{
    collections::HashSet,
    hash::{BuildHasher, RandomState},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    time::Duration,
};

use petstore_testkit::{
    Engine, Installation, Server, eventually,
    faults::{Fault, Proxy},
    free_port,
    history::{BUSY_DEADLINE, Conditions, History, Record, all_pets},
    load::{RecordingClient, Sender, Target},
};
use serde_json::json;
use tokio::task::JoinSet;

use crate::{key_without_limits, pets::created, petstore_on, rounds};

/// Time within which a gateway recovers when its core is back, on a busy machine.
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(30);

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
        let stored = all_pets(core.address("gRPC")).await;
        assert_eq!(stored.len(), cuts, "{engine:?}");
        assert_eq!(stored.iter().map(|pet| pet.id).collect::<HashSet<_>>(), added);
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
        let key = key_without_limits(&installation).await;
        gateway.client(&key).get("/v1/pets").await.assert_status(200);

        let load = Load::start(&gateway, &key);
        for round in 0..rounds(3, 20) {
            let before = load.history.acknowledged();
            let some_time = RandomState::new().hash_one(round) % 300;
            tokio::time::sleep(Duration::from_millis(some_time)).await;
            core.crash().await;
            core = start_core(&installation, &address).await;
            eventually(RECOVERY_TIMEOUT, async || {
                if load.history.acknowledged() > before { Ok(()) } else { Err("nothing is added".to_owned()) }
            })
            .await;
        }
        let records = load.stop().await;
        let stored = Some(all_pets(core.address("gRPC")).await);
        let conditions = Conditions { stored, deadline: Some(BUSY_DEADLINE), ..Conditions::default() };
        let report = conditions.check(&records);
        println!("{engine:?}: {report}");
        report.assert_clean();
    }
}

/// Clients that each add one pet after the other, and retry with the same key until it is acknowledged.
pub(super) struct Load {
    is_over: Arc<AtomicBool>,
    pub(super) history: History,
    clients: JoinSet<()>,
}

impl Load {
    pub(super) fn start(gateway: &Server, key: &str) -> Self {
        let (is_over, numbers) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicI64::new(0)));
        let (history, target) = (History::default(), Target::new(gateway.address("REST"), 0));
        let senders = [Sender { account: 0, key: key.to_owned() }];
        let mut clients = JoinSet::new();
        for _ in 0..4 {
            let mut client = RecordingClient::new(&history, target.clone(), &senders);
            let (is_over, numbers) = (Arc::clone(&is_over), Arc::clone(&numbers));
            clients.spawn(async move {
                while !is_over.load(Ordering::Relaxed) {
                    add(&mut client, numbers.fetch_add(1, Ordering::Relaxed)).await;
                }
            });
        }
        Self { is_over, history, clients }
    }

    pub(super) async fn stop(self) -> Vec<Record> {
        self.is_over.store(true, Ordering::Relaxed);
        self.clients.join_all().await;
        self.history.records()
    }
}

async fn add(client: &mut RecordingClient, number: i64) {
    for _ in 0..150 {
        let key = format!("Pet-{number}");
        let answer = client.add(0, &format!("Pet {number}"), number, Some(&key)).await;
        match answer.status {
            Ok(201) => return,
            // The client has to repeat it.
            Ok(409 | 503 | 504) => tokio::time::sleep(Duration::from_millis(100)).await,
            _ => panic!("{answer:?}"),
        }
    }
    panic!("pet {number} was never added");
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
