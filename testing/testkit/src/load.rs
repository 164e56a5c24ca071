//! Load: many requests of many keys over kept connections to one or several gateways, each one recorded.
//!
//! [`Load::closed_loop`] sends as fast as the answers arrive. [`Load::open_loop`] sends at a fixed rate
//! independently of the service, and measures from the time at which a request was due, so that a stall is
//! not hidden by the requests that it delayed. [`RecordingClient`] sends single requests.
//! [`history`](crate::history) checks the records.

mod client;

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    task::JoinSet,
    time::{Instant, sleep_until},
};

pub use self::client::{RecordingClient, Target};
use crate::history::{History, Record, start_time};

/// Key in use, and the account that it counts for.
#[derive(Clone, Debug)]
pub struct Sender {
    /// Number of the account whose limits the key uses up, shared by all keys of the account.
    pub account: usize,
    /// API key.
    pub key: String,
}

/// Bounds of a load: it ends with the last request, or when the time is over.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Maximum number of requests.
    pub requests: usize,
    /// Time after which no request is started.
    pub time: Duration,
}

/// Load: its gateways, its keys, its path and the number of its connections.
#[derive(Clone, Debug)]
pub struct Load {
    gateways: Vec<SocketAddr>,
    senders: Vec<Sender>,
    path: String,
    adds: bool,
    connections: usize,
}

impl Load {
    /// Creates a load of `GET /v1/pets?limit=1` over 16 connections, which take the gateways in turn; the
    /// requests take the keys in turn.
    pub fn new(gateways: &[SocketAddr], senders: &[Sender]) -> Self {
        assert!(!gateways.is_empty() && !senders.is_empty(), "a load needs a gateway and a key");
        let path = "/v1/pets?limit=1".to_owned();
        Self { gateways: gateways.to_vec(), senders: senders.to_vec(), path, adds: false, connections: 16 }
    }

    /// Returns the load on another path.
    pub fn on(self, path: &str) -> Self {
        Self { path: path.to_owned(), ..self }
    }

    /// Returns the load that adds pets instead.
    pub fn adding(self) -> Self {
        Self { adds: true, ..self }
    }

    /// Returns the load over this number of connections: the maximum of requests in flight.
    pub fn over(self, connections: usize) -> Self {
        Self { connections, ..self }
    }

    /// Sends the next request on a connection as soon as the last is answered. Returns the records, by time
    /// of sending.
    pub async fn closed_loop(&self, bounds: Bounds) -> Vec<Record> {
        self.run(bounds, Duration::ZERO).await
    }

    /// Sends `per_second` requests per second, evenly. While all connections wait for answers, due requests
    /// queue up, and their latency includes the wait. Returns the records, by the time at which they were
    /// due.
    pub async fn open_loop(&self, per_second: u32, bounds: Bounds) -> Vec<Record> {
        self.run(bounds, Duration::from_secs(1) / per_second).await
    }

    async fn run(&self, bounds: Bounds, interval: Duration) -> Vec<Record> {
        start_time();
        let (start, next, history) = (Instant::now(), Arc::new(AtomicUsize::new(0)), History::default());
        let mut workers = JoinSet::new();
        for place in 0..self.connections {
            let gateway = place % self.gateways.len();
            let address = *self.gateways.get(gateway).expect("a place in the list");
            let client = RecordingClient::new(&history, Target::new(address, gateway), &self.senders);
            workers.spawn(self.clone().work(client, bounds, start, interval, Arc::clone(&next)));
        }
        workers.join_all().await;
        history.records()
    }

    /// Runs one connection. A free connection takes the next request.
    async fn work(
        self,
        mut client: RecordingClient,
        bounds: Bounds,
        start: Instant,
        interval: Duration,
        next: Arc<AtomicUsize>,
    ) {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let mut sent = start + interval * u32::try_from(number).expect("fewer than 2³² requests");
            if interval.is_zero() {
                sent = Instant::now();
            } else {
                sleep_until(sent).await;
            }
            if number >= bounds.requests || sent.duration_since(start) > bounds.time {
                return;
            }
            let key = number % self.senders.len();
            if self.adds {
                client.add(key, &format!("Rex {number}"), 7, None).await;
            } else {
                client.get(sent, key, &self.path).await;
            }
        }
    }
}
