//! Tests against raw sockets: the answers that a client sees, including misbehaving ones.

use std::io;

use axum::{
    Router,
    body::{Body, Bytes},
    extract::ConnectInfo,
    routing::{get, post},
};
use http::StatusCode;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{Notify, oneshot},
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};

use super::*;

mod ending;
mod http2;
mod proxies;

/// Timeout that is never reached in a test that should pass.
const NEVER_TIMEOUT: Duration = Duration::from_mins(1);
/// Short timeout, for the one limit that a test is about.
const SHORT_TIMEOUT: Duration = Duration::from_millis(150);

/// Returns limits whose timeouts are never reached, unless a test lowers them.
fn patient() -> ServerLimits {
    ServerLimits {
        header_read_timeout: NEVER_TIMEOUT,
        write_stall: NEVER_TIMEOUT,
        drain_deadline: NEVER_TIMEOUT,
        rest_after: Duration::from_millis(1), // so that every test is about connections at rest too
        ..ServerLimits::default()
    }
}

/// Returns slots for more connections than a test opens.
fn enough() -> ConnectionSlots {
    ConnectionSlots::new(1_000, 1_000)
}

struct Running {
    addr: SocketAddr,
    drain: Option<oneshot::Sender<()>>,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<io::Result<()>>,
}

impl Running {
    async fn start(app: Router, limits: ServerLimits) -> Self {
        Self::start_over(None, app, limits, enough()).await
    }

    async fn start_over(
        certificate: Option<Certificate>,
        app: Router,
        limits: ServerLimits,
        slots: ConnectionSlots,
    ) -> Self {
        let app = Arc::new(app);
        Self::serve(Server { certificate, app, limits, slots, proxy_protocol: false, hsts: None }).await
    }

    async fn serve(server: Server) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let ((drain, drained), (stop, stopped)) = (oneshot::channel(), oneshot::channel());
        let (draining, shutdown) = (async { drop(drained.await) }, async { drop(stopped.await) });
        let ended = tokio::spawn(serve(listener, server, Box::pin(draining), Box::pin(shutdown)));
        Self { addr, drain: Some(drain), stop, ended }
    }

    /// Begins the drain.
    fn drain(&mut self) {
        self.drain.take();
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.addr).await.unwrap()
    }

    /// Sends the text on a new connection and returns that.
    async fn send(&self, text: &str) -> TcpStream {
        let mut stream = self.connect().await;
        stream.write_all(text.as_bytes()).await.unwrap();
        stream
    }

    /// Stops the server and returns the time that this took.
    async fn end(self) -> Duration {
        let begin = Instant::now();
        drop((self.drain, self.stop));
        self.ended.await.unwrap().unwrap();
        begin.elapsed()
    }
}

fn app() -> Router {
    Router::new()
        .route("/peer", get(async |ConnectInfo(peer): ConnectInfo<SocketAddr>| peer.to_string()))
        .route("/refuse", post(async || StatusCode::PAYLOAD_TOO_LARGE))
        .route("/large", get(async || Body::from(Bytes::from(vec![b'x'; 16 * 1024 * 1024]))))
}

const GET_PEER: &str = "GET /peer HTTP/1.1\r\nHost: h\r\n\r\n";

/// Returns an app with one answer that waits. The first notification reports that it has begun, and the
/// second lets it finish.
fn slow_app() -> (Router, Arc<Notify>, Arc<Notify>) {
    let (begun, finish) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (started, finished) = (Arc::clone(&begun), Arc::clone(&finish));
    let slow = async move || {
        started.notify_one();
        finished.notified().await;
        "done"
    };
    (Router::new().route("/slow", get(slow)), begun, finish)
}

const GET_SLOW: &str = "GET /slow HTTP/1.1\r\nHost: h\r\n\r\n";

/// Reads to the close of the connection by the server, or fails after a while.
async fn read_all(stream: &mut TcpStream) -> String {
    let mut read = Vec::new();
    timeout(NEVER_TIMEOUT / 4, stream.read_to_end(&mut read)).await.expect("the server closes").unwrap();
    String::from_utf8(read).unwrap()
}

/// Reads one answer whose last bytes are known.
async fn read_until(stream: &mut TcpStream, end: &str) -> String {
    let mut read = Vec::new();
    while !read.ends_with(end.as_bytes()) {
        let byte = timeout(NEVER_TIMEOUT / 4, stream.read_u8()).await.expect("an answer comes");
        read.push(byte.expect("the connection stays open"));
    }
    String::from_utf8(read).unwrap()
}

#[tokio::test]
async fn an_idle_connection_answers_the_next_request_however_it_arrives() {
    let server = Running::start(app(), patient()).await;
    let mut stream = server.send(GET_PEER).await;
    let peer = stream.local_addr().unwrap().to_string();
    read_until(&mut stream, &peer).await;
    let long = GET_PEER.replace("Host: h", &format!("Host: h\r\nX: {}", "x".repeat(9_000)));
    for request in [GET_PEER, &long] {
        for first in [1, request.len() / 2, request.len()] {
            sleep(SHORT_TIMEOUT).await; // the connection rests by then
            let (first, rest) = request.split_at(first);
            stream.write_all(first.as_bytes()).await.unwrap();
            sleep(SHORT_TIMEOUT / 10).await;
            stream.write_all(rest.as_bytes()).await.unwrap();
            read_until(&mut stream, &peer).await;
        }
    }
    // Two requests at once, of which the second is cut.
    stream.write_all(format!("{GET_PEER}{}", &GET_PEER[..9]).as_bytes()).await.unwrap();
    read_until(&mut stream, &peer).await;
    sleep(SHORT_TIMEOUT).await;
    stream.write_all(&GET_PEER.as_bytes()[9..]).await.unwrap();
    read_until(&mut stream, &peer).await;
}

#[tokio::test]
async fn a_client_that_closed_its_half_is_still_answered() {
    let (app, begun, finish) = slow_app();
    let server = Running::start(app, patient()).await;
    let mut stream = server.send(GET_SLOW).await;
    begun.notified().await;
    stream.shutdown().await.unwrap();
    for _ in 0..3 {
        // By then the server has seen the closed half.
        read_all(&mut server.send("GET / HTTP/1.0\r\n\r\n").await).await;
    }
    finish.notify_one();
    assert!(read_all(&mut stream).await.ends_with("done"));
}

#[tokio::test]
async fn a_silent_and_a_half_sent_head_are_closed() {
    let server =
        Running::start(app(), ServerLimits { header_read_timeout: SHORT_TIMEOUT, ..patient() }).await;
    for head in ["", "GET /peer HT", "GET /peer HTTP/1.1\r\nHost: h\r\n"] {
        let mut stream = server.send(head).await;
        assert_eq!(read_all(&mut stream).await, "", "{head:?}");
    }
}

/// Request that is refused unread.
const REFUSED: &str = "POST /refuse HTTP/1.1\r\nHost: h\r\n";

#[tokio::test]
async fn an_unread_body_is_discarded_and_the_connection_stays_open() {
    let server = Running::start(app(), patient()).await;
    let mut stream = server.connect().await;
    let peer = stream.local_addr().unwrap().to_string();
    let len = 60 * 1024;
    for coding in [format!("Content-Length: {len}"), "Transfer-Encoding: chunked".to_owned()] {
        for _ in 0..5 {
            stream.write_all(format!("{REFUSED}{coding}\r\n\r\n").as_bytes()).await.unwrap();
            for _ in 0..len / 1024 {
                // Bit by bit, so that most of it arrives after the app has answered.
                let bytes = "x".repeat(1024);
                let is_chunked = coding.ends_with("chunked");
                let bytes = if is_chunked { format!("400\r\n{bytes}\r\n") } else { bytes };
                stream.write_all(bytes.as_bytes()).await.unwrap();
                tokio::task::yield_now().await;
            }
            if coding.ends_with("chunked") {
                stream.write_all(b"0\r\n\r\n").await.unwrap();
            }
            let refusal = read_until(&mut stream, "\r\n\r\n").await;
            assert!(refusal.starts_with("HTTP/1.1 413 Payload Too Large\r\n"), "{refusal}");
            assert!(!refusal.contains("connection: close"), "{refusal}");
            stream.write_all(GET_PEER.as_bytes()).await.unwrap();
            read_until(&mut stream, &peer).await;
        }
    }
}

#[tokio::test]
async fn an_answer_says_that_the_connection_closes_if_a_body_cannot_be_discarded() {
    let limits = ServerLimits { discard_timeout: SHORT_TIMEOUT, ..patient() };
    let server = Running::start(app(), limits).await;
    let chunks = format!("10001\r\n{}\r\n", "x".repeat(0x10001));
    for (what, request) in [
        ("too large", "Content-Length: 65537\r\n\r\n"),
        ("too large, in chunks", &format!("Transfer-Encoding: chunked\r\n\r\n{chunks}")),
        (
            "in too many chunks",
            &format!("Transfer-Encoding: chunked\r\n\r\n{}0\r\n\r\n", "1\r\nx\r\n".repeat(1_100)),
        ),
        ("too late", "Content-Length: 2\r\n\r\nx"),
        ("broken", "Transfer-Encoding: chunked\r\n\r\nx"),
        ("asked for", "Content-Length: 2\r\nExpect: 100-continue\r\n\r\n"),
    ] {
        let mut stream = server.send(&format!("{REFUSED}{request}")).await;
        let answer = read_all(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 413 Payload Too Large\r\n"), "{what}: {answer}");
        assert!(answer.contains("connection: close\r\n"), "{what}: {answer}");
    }
}

#[tokio::test]
async fn a_client_that_reads_only_after_a_large_upload_sees_its_refusal() {
    let server = Running::start(app(), patient()).await;
    let len = 5 << 20;
    let mut stream = server.send(&format!("{REFUSED}Content-Length: {len}\r\n\r\n")).await;
    for _ in 0..len >> 16 {
        stream.write_all(&vec![b'x'; 1 << 16]).await.expect("the server still reads");
    }
    let answer = read_all(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 413 Payload Too Large\r\n"), "{answer}");
}

#[tokio::test]
async fn an_upload_without_end_is_cut_off() {
    let limits = ServerLimits { max_lingered: 1 << 20, ..patient() };
    let server = Running::start(app(), limits).await;
    let mut stream = server.send(&format!("{REFUSED}Content-Length: 999999999\r\n\r\n")).await;
    let mut sent = 0;
    while sent < 64 << 20 && stream.write_all(&vec![b'x'; 1 << 16]).await.is_ok() {
        sent += 1 << 16;
    }
    assert!(sent < 64 << 20, "the server takes everything");
}

#[tokio::test]
async fn an_upload_that_trickles_is_cut_off_in_time() {
    let limits = ServerLimits { linger_timeout: SHORT_TIMEOUT, ..patient() };
    let server = Running::start(app(), limits).await;
    let mut stream = server.send(&format!("{REFUSED}Content-Length: 999999999\r\n\r\n")).await;
    let cut_off = async {
        while stream.write_all(b"x").await.is_ok() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_secs(20), cut_off).await.expect("the server takes everything");
}

#[tokio::test]
async fn a_client_that_never_reads_is_closed() {
    let (limits, slots) = (ServerLimits { write_stall: SHORT_TIMEOUT, ..patient() }, enough());
    let server = Running::start_over(None, app(), limits, slots.clone()).await;
    let mut stalled = server.send("GET /large HTTP/1.1\r\nHost: h\r\n\r\n").await;
    stalled.read_u8().await.unwrap();
    while slots.metrics.open.get() > 0 {
        sleep(SHORT_TIMEOUT / 10).await; // the server's own timer cannot be moved over real sockets
    }
    let mut rest = Vec::new();
    let _ = stalled.read_to_end(&mut rest).await;
    assert!(rest.len() < 16 * 1024 * 1024, "{}", rest.len());
}

#[tokio::test]
async fn a_connection_over_the_limit_waits_while_the_others_are_at_work() {
    let (slow, begun, finish) = slow_app();
    let slots = ConnectionSlots::new(1, 9);
    let server = Running::start_over(None, slow.merge(app()), patient(), slots).await;
    let mut first = server.send(GET_SLOW).await;
    begun.notified().await;
    let mut second = server.send(GET_PEER).await;
    assert!(timeout(2 * SHORT_TIMEOUT, second.read_u8()).await.is_err());
    finish.notify_one();
    read_until(&mut first, "done").await;
    let second_peer = second.local_addr().unwrap().to_string();
    read_until(&mut second, &second_peer).await;
}

#[tokio::test]
async fn slow_clients_block_no_other_client() {
    let (app, begun, finish) = slow_app();
    let app = app.merge(super::tests::app());
    let slots = ConnectionSlots::new(4, 9);
    let server = Running::start_over(None, app, patient(), slots).await;
    let mut working = server.send(GET_SLOW).await;
    begun.notified().await;
    let mut slow = Vec::new();
    for request in ["", "GET /pe", "POST /slow HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nx", GET_PEER] {
        slow.push(server.send(request).await);
        slow.push(server.send(request).await);
        let mut quick = server.send(GET_PEER).await;
        let peer = quick.local_addr().unwrap().to_string();
        read_until(&mut quick, &peer).await;
        slow.push(quick);
    }
    finish.notify_one();
    read_until(&mut working, "done").await; // the server did not wait for its client
}

#[tokio::test]
async fn an_address_at_its_limit_gets_no_more_while_its_connections_are_at_work() {
    let (app, begun, finish) = slow_app();
    let server = Running::start_over(None, app, patient(), ConnectionSlots::new(9, 1)).await;
    let mut first = server.send(GET_SLOW).await;
    begun.notified().await;
    let mut second = server.connect().await;
    assert_eq!(read_all(&mut second).await, "");
    finish.notify_one();
    read_until(&mut first, "done").await;
    sleep(2 * SHORT_TIMEOUT).await; // it may be reclaimed now
    let mut third = server.send("GET /slow HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").await;
    assert_eq!(read_all(&mut first).await, "", "the third has its place");
    finish.notify_one();
    assert!(read_all(&mut third).await.ends_with("done"));
}

#[tokio::test]
async fn the_head_timeout_begins_with_the_first_byte() {
    // A busy machine does not make both equally long.
    let (head, idle) = (4 * SHORT_TIMEOUT, 32 * SHORT_TIMEOUT);
    let limits = ServerLimits { header_read_timeout: head, idle, ..patient() };
    let server = Running::start(app(), limits).await;
    let mut stream = server.send(GET_PEER).await;
    let peer = stream.local_addr().unwrap().to_string();
    for _ in 0..2 {
        read_until(&mut stream, &peer).await;
        sleep(head * 3 / 2).await; // longer than a head may take
        stream.write_all(GET_PEER.as_bytes()).await.unwrap();
    }
    read_until(&mut stream, &peer).await;
    sleep(SHORT_TIMEOUT).await;
    let begin = Instant::now();
    stream.write_all(b"GET /peer HT").await.unwrap();
    assert_eq!(read_all(&mut stream).await, "");
    let took = begin.elapsed();
    assert!((head..idle).contains(&took), "a head: {took:?}");

    let begin = Instant::now();
    let mut stream = server.send(GET_PEER).await;
    let peer = stream.local_addr().unwrap().to_string();
    read_until(&mut stream, &peer).await;
    assert_eq!(read_all(&mut stream).await, "");
    let took = begin.elapsed();
    assert!(took >= idle, "idle: {took:?}");
}
