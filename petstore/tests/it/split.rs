//! Core and gateway as two processes.

mod core_away;
mod hung_core;
mod secured;
mod several;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use petstore_testkit::{Answer, Engine, Installation, Server, eventually, free_port};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::{key_of_new_account, petstore_on};

/// Time within which the service must notice that a part is unreachable or back.
pub(crate) const NOTICED_TIMEOUT: Duration = Duration::from_secs(10);

/// Time within which the state of a part must be shown, on a busy machine.
const STATE_TIMEOUT: Duration = Duration::from_secs(40);

/// A core and a gateway that is ready.
pub(crate) struct Split {
    pub(crate) installation: Installation,
    pub(crate) core: Server,
    pub(crate) gateway: Server,
    pub(crate) key: String,
}

impl Split {
    pub(crate) async fn open() -> Self {
        Self::open_on(Engine::of_this_run()).await
    }

    pub(crate) async fn open_on(engine: Engine) -> Self {
        Self::of(petstore_on(engine).await).await
    }

    pub(crate) async fn of(installation: Installation) -> Self {
        let (core, key) = core_with_a_key(&installation).await;
        let gateway = start_gateway(&installation, &core.address("gRPC").to_string()).await;
        let split = Self { installation, core, gateway, key };
        eventually(NOTICED_TIMEOUT, async || match readiness(&split.gateway).await {
            ready if ready.status() == 200 => Ok(()),
            unready => Err(format!("{unready:?}")),
        })
        .await;
        split
    }
}

pub(crate) async fn core_with_a_key(installation: &Installation) -> (Server, String) {
    // No other test takes this port while the core is down, so it can restart there.
    let core = start_core(installation, &format!("127.0.0.1:{}", free_port())).await;
    let key = key_of_new_account(installation).await;
    (core, key)
}

pub(crate) async fn start_core(installation: &Installation, address: &str) -> Server {
    installation.start(&["core", "--grpc-addr", address, "--admin-addr", "127.0.0.1:0"]).await
}

pub(crate) async fn start_gateway(installation: &Installation, core: &str) -> Server {
    let core = format!("http://{core}");
    let ports = ["--http-addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0"];
    installation.start(&[["gateway", "--core-url", &core].as_slice(), &ports].concat()).await
}

pub(crate) async fn readiness(server: &Server) -> Answer {
    server.admin().get("/readyz").await
}

/// Clients that send one request after another.
pub(crate) struct Clients {
    is_over: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
    running: JoinSet<Vec<Answer>>,
}

impl Clients {
    pub(crate) fn start(gateway: &Server, key: &str) -> Self {
        let (is_over, answered, mut running) =
            (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default(), JoinSet::new());
        for _ in 0..4 {
            let (client, is_over, answered) = (gateway.client(key), is_over.clone(), answered.clone());
            running.spawn(async move {
                let mut failed = Vec::new();
                while !is_over.load(Ordering::Relaxed) {
                    let answer = client.get("/v1/pets").await;
                    answered.fetch_add(1, Ordering::Relaxed);
                    if answer.status() != 200 {
                        failed.push(answer);
                    }
                }
                failed
            });
        }
        Self { is_over, answered, running }
    }

    /// Waits until they have `more` answers.
    pub(crate) async fn answered(&self, more: usize) {
        let from = self.answered.load(Ordering::Relaxed);
        eventually(NOTICED_TIMEOUT, async || match self.answered.load(Ordering::Relaxed) - from {
            answered if answered >= more => Ok(()),
            answered => Err(format!("{answered} answers")),
        })
        .await;
    }

    /// Stops them, and checks that every request was served.
    pub(crate) async fn assert_all_served(self) {
        self.is_over.store(true, Ordering::Relaxed);
        let failed: Vec<_> = self.running.join_all().await.into_iter().flatten().collect();
        println!("{} requests, {} failed", self.answered.load(Ordering::Relaxed), failed.len());
        assert!(failed.is_empty(), "{failed:?}");
    }
}

/// Waits until a part of the server has this state, for this cause, in `/readyz` and in the metrics. The
/// cause of `ok` is empty.
pub(crate) async fn part_is(server: &Server, part: &str, state: &str, cause: &str) -> Value {
    eventually(STATE_TIMEOUT, async || {
        let body = readiness(server).await.json();
        let metrics = server.admin().get("/metrics").await.text().to_owned();
        // Labels are in the order of their names.
        let state_line = format!("petstore_part_state{{part=\"{part}\",state=\"{state}\"}} 1");
        let cause_line = format!("petstore_part_cause{{cause=\"{cause}\",part=\"{part}\"}} 1");
        let expected = if cause.is_empty() { json!(null) } else { json!(cause) };
        let is_shown = body["parts"][part] == state
            && body["causes"][part]["cause"] == expected
            && metrics.contains(&state_line)
            && (cause.is_empty() || metrics.contains(&cause_line));
        if is_shown { Ok(body) } else { Err(format!("{body}")) }
    })
    .await
}
