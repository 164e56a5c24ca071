//! REST client with one identity.

use std::{net::SocketAddr, time::Duration};

use bytes::Bytes;
use http::{Method, Request, header};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    task::AbortHandle,
    time::timeout,
};

use crate::{Answer, Authority, Protocol, Tls, contract};

/// Timeout of an answer, longer than any deadline of the service.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);

/// Client that sends requests with one API key, or with none. Each request has its own connection, except
/// those of [`Client::sends`].
#[derive(Clone, Debug)]
pub struct Client {
    address: SocketAddr,
    key: Option<String>,
    fields: Vec<(String, String)>,
    tls: Option<Tls>,
}

impl Client {
    /// Creates a client of the address without a key.
    pub fn new(address: SocketAddr) -> Self {
        Self { address, key: None, fields: Vec::new(), tls: None }
    }

    /// Returns a copy of the client with this key.
    pub fn with_key(&self, key: &str) -> Self {
        Self { key: Some(key.to_owned()), ..self.clone() }
    }

    /// Returns a copy of the client that sends one more field with every request.
    pub fn with_header(&self, name: &str, value: &str) -> Self {
        let mut client = self.clone();
        client.fields.push((name.to_owned(), value.to_owned()));
        client
    }

    /// Returns a copy of the client for another gateway.
    pub fn at(&self, address: SocketAddr) -> Self {
        Self { address, ..self.clone() }
    }

    /// Returns a copy of the client over HTTPS, trusting this authority.
    pub fn over_tls(&self, authority: &Authority, protocol: Protocol) -> Self {
        Self { tls: Some(Tls::trusting(authority, protocol)), ..self.clone() }
    }

    /// Returns the key; fails the test if there is none.
    pub fn key(&self) -> &str {
        self.key.as_deref().expect("this client has no key")
    }

    /// Returns the address that it calls.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sends `GET path`.
    pub async fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[], "").await
    }

    /// Sends `POST path` with a JSON body.
    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        self.post_text(path, &body.to_string()).await
    }

    /// Sends `POST path` with a body whose media type is JSON.
    pub async fn post_text(&self, path: &str, body: &str) -> Answer {
        self.send("POST", path, &[("content-type", "application/json")], body.to_owned()).await
    }

    /// Sends any request.
    pub async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Answer {
        Connection::open(self).await.exchange(self.request(method, path, headers, body.into())).await
    }

    /// Sends `GET path` this many times, one after another over one connection. Returns all answers, in
    /// order.
    pub async fn sends(&self, count: usize, path: &str) -> Vec<Answer> {
        let mut connection = Connection::open(self).await;
        let mut answers = Vec::with_capacity(count);
        for _ in 0..count {
            answers.push(connection.exchange(self.request("GET", path, &[], Bytes::new())).await);
        }
        answers
    }

    /// Sends `GET path` this many times at once, each over its own connection, all open before the first
    /// request is sent.
    pub async fn sends_at_once(&self, count: usize, path: &str) -> Vec<Answer> {
        let mut connections = Vec::with_capacity(count);
        for _ in 0..count {
            connections.push(Connection::open(self).await);
        }
        let exchanges = connections.into_iter().map(|mut connection| {
            let request = self.request("GET", path, &[], Bytes::new());
            async move { connection.exchange(request).await }
        });
        futures_util::future::join_all(exchanges).await
    }

    fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Bytes,
    ) -> Request<Full<Bytes>> {
        let request = Request::builder().method(Method::from_bytes(method.as_bytes()).expect("a method"));
        let mut request = if self.tls.as_ref().map(Tls::protocol) == Some(Protocol::Http2) {
            request.uri(format!("https://{}{path}", self.address)) // it has `:authority` in place of Host
        } else if headers.iter().any(|(name, _)| header::HOST == **name) {
            request.uri(path)
        } else {
            request.uri(path).header(header::HOST, self.address.to_string())
        };
        if let Some(key) = &self.key {
            request = request.header(header::AUTHORIZATION, format!("Bearer {key}"));
        }
        for (name, value) in self.fields.iter().map(|(name, value)| (name.as_str(), value.as_str())) {
            request = request.header(name, value);
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(Full::new(body)).expect("a request")
    }
}

/// Client that keeps its connection, and opens another one when the service announces the end of it
/// (`Connection: close`, GOAWAY).
///
/// Over HTTP/2 it needs a runtime of one thread: while a connection ends on one thread, hyper may accept a
/// request on another, and neither sends nor refuses it.
#[derive(Debug)]
pub struct Session {
    client: Client,
    connection: Option<Connection>,
}

impl Session {
    /// Creates a session of the client. It opens its first connection with the first request.
    pub fn new(client: Client) -> Self {
        Self { client, connection: None }
    }

    /// Sends any request, over a new connection if the kept one has ended.
    ///
    /// # Errors
    ///
    /// If the request was sent and not answered.
    pub async fn send(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Result<Answer, String> {
        let request = self.client.request(method, path, headers, body.into());
        loop {
            let mut connection = match self.connection.take() {
                Some(kept) => kept,
                None => Connection::open(&self.client).await,
            };
            match timeout(ANSWER_TIMEOUT, connection.try_exchange(request.clone())).await {
                Ok(Ok(answer)) => {
                    self.connection = Some(connection);
                    return Ok(answer);
                }
                Ok(Err(error)) if was_not_processed(&error) => {}
                Ok(Err(error)) => return Err(format!("no answer to {method} {path}: {error:?}")),
                Err(_) => return Err(format!("no answer to {method} {path} within {ANSWER_TIMEOUT:?}")),
            }
        }
    }
}

/// Returns `true` if the service has certainly not processed the request, so that it may be sent over another
/// connection.
pub(crate) fn was_not_processed(error: &hyper::Error) -> bool {
    // GOAWAY may arrive when a request is about to be sent (RFC 9113, 6.8). A request that the service had
    // seen would have been answered.
    let is_after_goaway = || format!("{error:?}").contains("GoAway(b\"\", NO_ERROR, Remote)");
    error.is_canceled() || error.is_closed() || is_after_goaway()
}

/// Single connection; closed when dropped.
#[derive(Debug)]
struct Connection {
    sender: Sender,
    driver: AbortHandle,
}

/// Sender of requests in one of the versions of HTTP.
#[derive(Debug)]
enum Sender {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

impl Connection {
    async fn open(client: &Client) -> Self {
        let Some(tls) = &client.tls else {
            let stream = TcpStream::connect(client.address).await.expect("the service accepts connections");
            stream.set_nodelay(true).expect("a TCP socket");
            return Self::in_http1(stream).await;
        };
        let stream = tls.connect(client.address).await.expect("a TLS handshake");
        match tls.protocol() {
            Protocol::Http1 => Self::in_http1(stream).await,
            Protocol::Http2 => Self::in_http2(stream).await,
        }
    }

    async fn in_http1(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Self {
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.expect("a handshake");
        let driver = tokio::spawn(async move {
            let _ = connection.await; // the exchange sees its errors
        });
        Self { sender: Sender::Http1(sender), driver: driver.abort_handle() }
    }

    async fn in_http2(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Self {
        let handshake = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
        let (sender, connection) = handshake.expect("a handshake");
        let driver = tokio::spawn(async move {
            let _ = connection.await; // the exchange sees its errors
        });
        Self { sender: Sender::Http2(sender), driver: driver.abort_handle() }
    }

    async fn exchange(&mut self, request: Request<Full<Bytes>>) -> Answer {
        let what = format!("{} {}", request.method(), request.uri());
        match timeout(ANSWER_TIMEOUT, self.try_exchange(request)).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => panic!("no answer to {what}: {error:?}"),
            Err(elapsed) => panic!("no answer to {what}: {elapsed} ({ANSWER_TIMEOUT:?})"),
        }
    }

    async fn try_exchange(&mut self, request: Request<Full<Bytes>>) -> Result<Answer, hyper::Error> {
        let (method, uri) = (request.method().clone(), request.uri().clone());
        let response = match &mut self.sender {
            Sender::Http1(sender) => {
                sender.ready().await?;
                sender.send_request(request).await?
            }
            Sender::Http2(sender) => {
                sender.ready().await?;
                sender.send_request(request).await?
            }
        };
        let (head, body) = response.into_parts();
        let answer = Answer::new(head.status.as_u16(), head.headers, body.collect().await?.to_bytes());
        contract::check(&method, uri.path(), &answer);
        Ok(answer)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}
