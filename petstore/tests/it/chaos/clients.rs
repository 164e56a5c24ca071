//! Clients of a schedule.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use petstore_testkit::{
    Random,
    history::History,
    load::{RecordingClient, Sender, Target},
};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

/// Number of clients of each account, and the mean time between two requests of each.
const CLIENTS: [(usize, Duration); 4] = [
    (3, Duration::from_millis(60)),
    (2, Duration::from_millis(800)),
    (2, Duration::from_millis(400)),
    (3, Duration::from_millis(250)),
];
/// Pause for which a client keeps its connection. A gateway that stops waits for longer.
const KEPT_TIME: Duration = Duration::from_millis(500);

/// Clients, until they are stopped.
pub(super) struct Clients {
    is_over: Arc<AtomicBool>,
    tasks: JoinSet<()>,
}

impl Clients {
    /// Starts the clients. They take the gateways in turn.
    pub(super) fn start(
        history: &History,
        targets: &[Target],
        senders: &[Sender],
        random: &mut Random,
    ) -> Self {
        let (is_over, mut tasks) = (Arc::new(AtomicBool::new(false)), JoinSet::new());
        for (key, (clients, interval)) in CLIENTS.into_iter().enumerate() {
            for number in 0..clients {
                let client = SomeClient {
                    client: RecordingClient::new(history, targets[number % targets.len()].clone(), senders),
                    targets: targets.to_vec(),
                    random: random.fork(),
                    name: format!("{key}-{number}"),
                    key,
                    interval,
                };
                tasks.spawn(client.run(Arc::clone(&is_over)));
            }
        }
        Self { is_over, tasks }
    }

    /// Lets each client finish its current request.
    pub(super) async fn stop(self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.tasks.join_all().await;
    }
}

struct SomeClient {
    client: RecordingClient,
    targets: Vec<Target>,
    random: Random,
    name: String,
    key: usize,
    interval: Duration,
}

impl SomeClient {
    /// Reads, and adds pets, each with its own `Idempotency-Key` until it is acknowledged.
    async fn run(mut self, is_over: Arc<AtomicBool>) {
        let mut number = 0;
        while !is_over.load(Ordering::Relaxed) {
            let pause = self.random.between(Duration::ZERO, 2 * self.interval);
            if pause > KEPT_TIME {
                self.client.close();
            }
            sleep(pause).await;
            let record = if self.random.below(2) == 0 {
                self.client.get(Instant::now(), self.key, "/v1/pets?limit=1").await
            } else {
                let name = format!("pet {number} of {}", self.name);
                self.client.add(self.key, &name, number, Some(&name.replace(' ', "-"))).await
            };
            match record.status {
                Ok(201) => number += 1,
                Ok(_) => {}
                // As a load balancer would, and sometimes for no reason.
                Err(_) => self.move_on(),
            }
            if self.random.below(10) == 0 {
                self.move_on();
            }
        }
    }

    fn move_on(&mut self) {
        let target = self.random.below(self.targets.len());
        self.client.lead_to(&self.targets[target]);
    }
}
