//! Malformed requests. They are refused before authentication, so that they count nothing.

use std::time::{Duration, Instant};

use petstore_testkit::{Answer, Client, Plan, TestShop, raw};
use tokio::io::AsyncWriteExt;

/// Time in which a request's body has to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(5);

/// Time within which a connection without a complete head is closed.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Additional time for a busy machine.
const SLACK_TIMEOUT: Duration = Duration::from_secs(10);

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let shop = TestShop::open().await;
    let client = shop.client_on(Plan::Free).await;
    let request = |id: &str, connection: &str| {
        format!(
            "GET /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {}\r\n\
             X-Request-Id: {id}\r\n{connection}\r\n",
            client.key()
        )
    };
    let row =
        [request("first-one", ""), request("second-one", ""), request("third-one", "Connection: close\r\n")]
            .concat();
    let answers = raw::answers(&raw::exchange(client.address(), row.as_bytes()).await);
    let ids: Vec<&str> = answers.iter().map(|answer| answer.header("x-request-id")).collect();
    assert_eq!(ids, ["first-one", "second-one", "third-one"], "{answers:?}");
}

#[tokio::test]
async fn bytes_that_are_not_http_are_refused_and_the_service_continues() {
    let shop = TestShop::open().await;
    let client = shop.client_on(Plan::Free).await;
    for bytes in [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc".as_slice(),
        b"GET\r\n\r\n",
        b"GET /v1/pets HTTP/9.9\r\nHost: a\r\n\r\n",
        b"GET /v1/pets HTTP/1.1\r\nHost : a\r\n\r\n",
        b"GET /v1/pets HTTP/1.1\r\nHost: a\r\n folded: x\r\n\r\n",
        b"GET /v1/pets HTTP/1.1\r\nHost: a\r\nx: \x00\r\n\r\n",
        b"POST /v1/pets HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx",
        b"POST /v1/pets HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\nx",
        b"POST /v1/pets HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\nx",
    ] {
        let answer = raw::exchange(client.address(), bytes).await;
        let text = String::from_utf8_lossy(&answer);
        assert!(
            answer.is_empty() || text.starts_with("HTTP/1.1 400"),
            "{}: {text}",
            String::from_utf8_lossy(bytes)
        );
    }
    client.get("/v1/pets").await.assert_status(200);
}

#[tokio::test]
async fn a_body_declared_too_large_is_refused_before_it_is_sent() {
    let shop = TestShop::open().await;
    let client = shop.client_on(Plan::Free).await;
    let start = Instant::now();
    let answer = send_raw(
        &client,
        "POST /v1/pets HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 10000000\r\n",
    )
    .await;
    answer.assert_error(413, "BODY_TOO_LARGE");
    assert!(start.elapsed() < BODY_TIMEOUT, "it waited for the body: {:?}", start.elapsed());
}

#[tokio::test]
async fn a_body_that_does_not_arrive_within_five_seconds_is_refused() {
    let shop = TestShop::open().await;
    let client = shop.client_on(Plan::Free).await;
    let start = Instant::now();
    let answer = send_raw(
        &client,
        "POST /v1/pets HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 30\r\n",
    )
    .await;
    answer.assert_error(408, "REQUEST_TIMEOUT");
    assert_eq!(answer.rate().remaining, 59, "it counted: {answer:?}");
    assert!((BODY_TIMEOUT..BODY_TIMEOUT + SLACK_TIMEOUT).contains(&start.elapsed()), "{:?}", start.elapsed());
}

#[tokio::test]
async fn a_head_that_does_not_arrive_is_refused() {
    let shop = TestShop::open().await;
    let address = shop.anonymous().address();
    let mut streams = Vec::new();
    for begun in ["", "GET /v1/pe", "GET /v1/pets HTTP/1.1\r\nHost: a\r\nX-Slow: "] {
        let mut stream = raw::connect(address).await;
        stream.write_all(begun.as_bytes()).await.unwrap();
        streams.push(stream);
    }
    let start = Instant::now();
    for mut stream in streams {
        let answer = raw::read_to_end(&mut stream).await;
        assert!(
            answer.is_empty() || answer.starts_with(b"HTTP/1.1 4"),
            "{}",
            String::from_utf8_lossy(&answer)
        );
    }
    assert!(start.elapsed() < HEAD_TIMEOUT + SLACK_TIMEOUT, "{:?}", start.elapsed());
}

/// Sends a head, with the client's key and `Connection: close`, and no body.
async fn send_raw(client: &Client, head: &str) -> Answer {
    let request = format!("{head}Authorization: Bearer {}\r\nConnection: close\r\n\r\n", client.key());
    raw::answer(&raw::exchange(client.address(), request.as_bytes()).await)
}
