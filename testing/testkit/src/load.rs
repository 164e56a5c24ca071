//! Load: many requests of many keys over kept connections to one or several gateways, each one recorded.
//!
//! [`Load::closed_loop`] sends as fast as the answers arrive. [`Load::open_loop`] sends at a fixed rate
//! independently of the service, and measures from the time at which a request was due, so that a stall is
//! not hidden by the requests that it delayed. [`history`](crate::history) checks the records.

mod record;

use std::{
    net::SocketAddr,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{Request, header};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::{
    net::TcpStream,
    task::{AbortHandle, JoinSet},
    time::{Instant, sleep_until, timeout},
};

use self::record::{Answer, ZERO};
pub use self::record::{NoAnswer, Record, latency_at};

/// Timeout of an answer, longer than any deadline of the service.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);

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
    connections: usize,
}

impl Load {
    /// Creates a load of `GET /v1/pets?limit=1` over 16 connections, which take the gateways in turn; the
    /// requests take the keys in turn.
    #[must_use]
    pub fn new(gateways: &[SocketAddr], senders: &[Sender]) -> Self {
        assert!(!gateways.is_empty() && !senders.is_empty(), "a load needs a gateway and a key");
        let path = "/v1/pets?limit=1".to_owned();
        Self { gateways: gateways.to_vec(), senders: senders.to_vec(), path, connections: 16 }
    }

    /// Returns the load on another path.
    #[must_use]
    pub fn on(self, path: &str) -> Self {
        Self { path: path.to_owned(), ..self }
    }

    /// Returns the load over this number of connections: the maximum of requests in flight.
    #[must_use]
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
        LazyLock::force(&ZERO);
        let (start, next) = (Instant::now(), Arc::new(AtomicUsize::new(0)));
        let mut workers = JoinSet::new();
        for place in 0..self.connections {
            let (load, next) = (self.clone(), Arc::clone(&next));
            workers.spawn(async move { load.work(place, bounds, start, interval, &next).await });
        }
        let mut records: Vec<_> = workers.join_all().await.into_iter().flatten().collect();
        records.sort_by_key(|record| record.inv_ns);
        records
    }

    /// Runs one connection. A free connection takes the next request.
    async fn work(
        &self,
        place: usize,
        bounds: Bounds,
        start: Instant,
        interval: Duration,
        next: &AtomicUsize,
    ) -> Vec<Record> {
        let gateway = place % self.gateways.len();
        let (mut records, mut connection) = (Vec::new(), None);
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let mut sent = start + interval * u32::try_from(number).expect("fewer than 2³² requests");
            if interval.is_zero() {
                sent = Instant::now();
            } else {
                sleep_until(sent).await;
            }
            if number >= bounds.requests || sent.duration_since(start) > bounds.time {
                return records;
            }
            let key = number % self.senders.len();
            let answer = self.exchange(&mut connection, gateway, key).await;
            let account = self.senders.get(key).expect("a place in the list").account;
            records.push(Record::new(sent, gateway, key, account, answer));
        }
    }

    async fn exchange(&self, connection: &mut Option<Connection>, gateway: usize, key: usize) -> Answer {
        let address = self.gateways.get(gateway).expect("a place in the list");
        // A connection that the gateway closed while it was idle is replaced before anything is sent.
        let mut open = match connection.take() {
            Some(open) if !open.sender.is_closed() => open,
            _ => Connection::open(*address).await?,
        };
        let request = Request::get(&self.path)
            .header(header::HOST, address.to_string())
            .header(header::AUTHORIZATION, format!("Bearer {}", self.senders.get(key).expect("a place").key))
            .body(Empty::new())
            .expect("a request");
        let exchange = async {
            let (head, body) = open.sender.send_request(request).await?.into_parts();
            Ok::<_, hyper::Error>((head.status.as_u16(), head.headers, body.collect().await?.to_bytes()))
        };
        let answer = timeout(ANSWER_TIMEOUT, exchange).await.map_err(|_| NoAnswer::TimedOut)?;
        let answer = answer.map_err(|_| NoAnswer::Broken)?;
        // The connection is ready again, or is going to be closed.
        if open.sender.ready().await.is_ok() {
            *connection = Some(open);
        }
        Ok(answer)
    }
}

/// HTTP/1.1 connection that is kept; closed when dropped.
struct Connection {
    sender: SendRequest<Empty<Bytes>>,
    driver: AbortHandle,
}

impl Connection {
    async fn open(address: SocketAddr) -> Result<Self, NoAnswer> {
        let stream = timeout(ANSWER_TIMEOUT, TcpStream::connect(address)).await;
        let stream = stream.map_err(|_| NoAnswer::NotSent)?.map_err(|_| NoAnswer::NotSent)?;
        let _ = stream.set_nodelay(true);
        let (sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|_| NoAnswer::NotSent)?;
        let driver = tokio::spawn(async move {
            let _ = connection.await; // the exchange sees its errors
        });
        Ok(Self { sender, driver: driver.abort_handle() })
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}
