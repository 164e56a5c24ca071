//! Client that records its requests.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{Request, header, request};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::{
    net::TcpStream,
    task::AbortHandle,
    time::{Instant, timeout},
};

use super::Sender;
use crate::{
    Answer,
    history::{History, NoAnswer, Record, StoredPet},
};

/// Timeout of an answer, longer than any deadline of the service.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);

/// Gateway on a fixed address. Clones share the number of the process that listens there.
#[derive(Clone, Debug)]
pub struct Target {
    address: SocketAddr,
    process: Arc<AtomicUsize>,
}

impl Target {
    /// Creates the target, whose process has this number.
    pub fn new(address: SocketAddr, process: usize) -> Self {
        Self { address, process: Arc::new(AtomicUsize::new(process)) }
    }

    /// Returns the number of the process.
    pub fn process(&self) -> usize {
        self.process.load(Ordering::SeqCst)
    }

    /// Sets the number of the next process. Call it after the end of one and before the start of the other.
    pub fn set_process(&self, process: usize) {
        self.process.store(process, Ordering::SeqCst);
    }
}

/// Client that records its requests, and keeps one connection. A connection that the gateway is going to
/// close (`Connection: close`), or that it closed while it was idle, is replaced before the next request.
#[derive(Debug)]
pub struct RecordingClient {
    history: History,
    target: Target,
    senders: Vec<Sender>,
    connection: Option<Connection>,
}

impl RecordingClient {
    /// Creates a client that writes to this history and sends with these keys.
    pub fn new(history: &History, target: Target, senders: &[Sender]) -> Self {
        Self { history: history.clone(), target, senders: senders.to_vec(), connection: None }
    }

    /// Sends further requests to another gateway.
    pub fn lead_to(&mut self, target: &Target) {
        (self.target, self.connection) = (target.clone(), None);
    }

    /// Closes the connection, as a client that pauses for longer than gateways drain.
    pub fn close(&mut self) {
        self.connection = None;
    }

    /// Sends `GET path` with the key at this place. It is recorded as sent, or due, at `sent`.
    pub async fn get(&mut self, sent: Instant, key: usize, path: &str) -> Record {
        self.exchange(sent, key, Vec::new(), || (Request::get(path), Bytes::new())).await
    }

    /// Adds a pet with the key at this place, and with an `Idempotency-Key` if there is one.
    pub async fn add(
        &mut self,
        key: usize,
        name: &str,
        category: i64,
        idempotency_key: Option<&str>,
    ) -> Record {
        let body = Bytes::from(json!({"name": name, "categoryId": category}).to_string());
        let pet = StoredPet { id: 0, name: name.to_owned(), category_id: category };
        let request = || {
            let mut request = Request::post("/v1/pets").header(header::CONTENT_TYPE, "application/json");
            if let Some(idempotency_key) = idempotency_key {
                request = request.header("idempotency-key", idempotency_key);
            }
            (request, body.clone())
        };
        self.exchange(Instant::now(), key, vec![pet], request).await
    }

    async fn exchange(
        &mut self,
        sent: Instant,
        key: usize,
        adds: Vec<StoredPet>,
        request: impl Fn() -> (request::Builder, Bytes),
    ) -> Record {
        let sender = self.senders.get(key).expect("a place in the list").clone();
        let mut process = self.target.process();
        let answer = loop {
            let kept = self.connection.take().filter(|kept| !kept.sender.is_closed());
            let is_kept = kept.is_some();
            let mut open = match kept {
                Some(kept) => kept,
                None => match Connection::open(&self.target).await {
                    Ok(open) => open,
                    Err(reason) => break Err(reason),
                },
            };
            process = open.process;
            let (head, body) = request();
            let head = head
                .header(header::HOST, self.target.address.to_string())
                .header(header::AUTHORIZATION, format!("Bearer {}", sender.key));
            match open.exchange(head.body(Full::new(body)).expect("a request")).await {
                // The gateway closed the connection while it was idle, and nothing was sent.
                Err(NoAnswer::NotSent) if is_kept => {}
                Err(reason) => break Err(reason),
                Ok(answer) => {
                    // The connection is ready again, or is going to be closed.
                    if open.sender.ready().await.is_ok() {
                        self.connection = Some(open);
                    }
                    break Ok(answer);
                }
            }
        };
        let record = Record::of_request(
            sent,
            process,
            (sender.account, key),
            adds,
            answer.as_ref().map_err(|reason| *reason),
        );
        self.history.add(record.clone());
        record
    }
}

/// HTTP/1.1 connection that is kept; closed when dropped.
#[derive(Debug)]
struct Connection {
    sender: SendRequest<Full<Bytes>>,
    driver: AbortHandle,
    /// Process of the gateway that accepted it.
    process: usize,
}

impl Connection {
    async fn open(target: &Target) -> Result<Self, NoAnswer> {
        loop {
            let process = target.process();
            let stream = timeout(ANSWER_TIMEOUT, TcpStream::connect(target.address)).await;
            let stream = stream.map_err(|_| NoAnswer::NotSent)?.map_err(|_| NoAnswer::NotSent)?;
            if target.process() != process {
                continue; // either process may have accepted it
            }
            let _ = stream.set_nodelay(true);
            let (sender, connection) =
                http1::handshake(TokioIo::new(stream)).await.map_err(|_| NoAnswer::NotSent)?;
            let driver = tokio::spawn(async move {
                let _ = connection.await; // the exchange sees its errors
            });
            return Ok(Self { sender, driver: driver.abort_handle(), process });
        }
    }

    async fn exchange(&mut self, request: Request<Full<Bytes>>) -> Result<Answer, NoAnswer> {
        let exchange = async {
            let (head, body) = self.sender.send_request(request).await?.into_parts();
            Ok::<_, hyper::Error>(Answer::new(
                head.status.as_u16(),
                head.headers,
                body.collect().await?.to_bytes(),
            ))
        };
        let answer = timeout(ANSWER_TIMEOUT, exchange).await.map_err(|_| NoAnswer::TimedOut)?;
        answer.map_err(|error| if error.is_canceled() { NoAnswer::NotSent } else { NoAnswer::Broken })
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}
