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
async fn a_request_without_exactly_one_valid_host_is_refused() {
    let shop = TestShop::open().await;
    let client = shop.client_on(Plan::Free).await;
    for host in [
        "",
        "Host: a\r\nHost: b\r\n",
        "Host: localhost\r\nHost: localhost\r\n",
        "Host: a b\r\n",
        "Host: a/b\r\n",
        "Host: user@a\r\n",
        "Host: a:b\r\n",
        "Host: [::1\r\n",
        "Host: \r\n",
    ] {
        let answer = send_raw(&client, &format!("GET /v1/pets HTTP/1.1\r\n{host}")).await;
        assert_eq!(answer.status(), 400, "{host:?}: {answer:?}");
        answer.assert_error(400, "INVALID_REQUEST");
        assert_eq!((answer.rate().limit, answer.rate().remaining), (600, 600), "{answer:?}");
    }
    assert_eq!(client.get("/v1/pets").await.rate().remaining, 59, "they counted nothing");
}

#[tokio::test]
async fn every_valid_host_is_accepted() {
    let shop = TestShop::open().await;
    let client = shop.client_on(Plan::Free).await;
    for host in [
        "localhost",
        "api.example.com",
        "127.0.0.1:8080",
        "[::1]",
        "[::1]:8080",
        "[v1.fe80::1]",
        "EXAMPLE.com.",
        "a:",
    ] {
        let answer = send_raw(&client, &format!("GET /v1/pets HTTP/1.1\r\nHost: {host}\r\n")).await;
        assert_eq!(answer.status(), 200, "{host}: {answer:?}");
    }
}

#[tokio::test]
async fn a_target_in_absolute_form_is_accepted() {
    let shop = TestShop::open().await;
    let client = shop.client_on(Plan::Free).await;
    let answer = send_raw(&client, "GET http://api.example/v1/pets HTTP/1.1\r\nHost: api.example\r\n").await;
    answer.assert_status(200);
    let _ = answer.rate();
}

#[tokio::test]
async fn a_target_over_8_kib_is_refused() {
    let shop = TestShop::open().await;
    let client = shop.client_on(Plan::Free).await;
    let target = |len: usize| format!("/v1/pets?x={}", "a".repeat(len - "/v1/pets?x=".len()));
    client.get(&target(8_192)).await.assert_status(200);
    for len in [8_193, 60_000] {
        let answer = client.get(&target(len)).await;
        answer.assert_error(414, "URI_TOO_LONG");
        assert_eq!(answer.rate().limit, 600, "{answer:?}");
    }
    shop.anonymous().get(&target(8_193)).await.assert_error(414, "URI_TOO_LONG");
    assert_eq!(client.get("/v1/pets").await.rate().remaining, 58, "they counted nothing");
}

#[tokio::test]
async fn more_than_100_fields_or_32_kib_of_them_are_refused() {
    let shop = TestShop::open().await;
    let client = shop.client_on(Plan::Free).await;
    let mut many = client.clone();
    for number in 0..98 {
        many = many.with_header(&format!("x-{number}"), "1"); // and Host and Authorization
    }
    many.get("/v1/pets").await.assert_status(200);
    for (who, client) in [
        ("101 fields", many.with_header("x-98", "1")),
        ("200 fields", (0..102).fold(many, |client, number| client.with_header(&format!("y-{number}"), "1"))),
        ("33 KiB", client.with_header("x-long", &"a".repeat(33 * 1_024))),
        ("60 KiB", client.with_header("x-long", &"a".repeat(60 * 1_000))),
        ("33 KiB without a key", shop.anonymous().with_header("x-long", &"a".repeat(33 * 1_024))),
    ] {
        let answer = client.get("/v1/pets").await;
        assert_eq!(answer.status(), 431, "{who}: {answer:?}");
        answer.assert_error(431, "HEADERS_TOO_LARGE");
        assert_eq!((answer.rate().limit, answer.rate().remaining), (600, 600), "{who}: {answer:?}");
    }
    client.with_header("x-long", &"a".repeat(31 * 1_024)).get("/v1/pets").await.assert_status(200);
}

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
async fn a_transfer_coding_other_than_chunked_is_refused_and_counts_nothing() {
    let shop = TestShop::open().await;
    let client = shop.client_on(Plan::Free).await;
    for codings in ["gzip, chunked", "gzip\r\nTransfer-Encoding: chunked", "chunked, chunked"] {
        let request = format!(
            "POST /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {}\r\nConnection: close\r\n\
             Content-Type: application/json\r\nTransfer-Encoding: {codings}\r\n\r\n2\r\n{{}}\r\n0\r\n\r\n",
            client.key()
        );
        let answer = raw::answer(&raw::exchange(client.address(), request.as_bytes()).await);
        answer.assert_error(501, "UNSUPPORTED_TRANSFER_CODING");
        assert_eq!(answer.rate().limit, 600, "{answer:?}");
    }
    assert_eq!(client.get("/v1/pets").await.rate().remaining, 59, "they counted nothing");
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
async fn a_chunked_body_is_refused_once_it_is_too_large() {
    let shop = TestShop::open().await;
    let client = shop.client_on(Plan::Free).await;
    let mut stream = raw::connect(client.address()).await;
    let head = format!(
        "POST /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
         Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n",
        client.key()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let chunk = format!("1000\r\n{}\r\n", " ".repeat(0x1000));
    for _ in 0..17 {
        stream.write_all(chunk.as_bytes()).await.unwrap(); // 68 KiB, and no end
    }
    raw::answer(&raw::read_to_end(&mut stream).await).assert_error(413, "BODY_TOO_LARGE");
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
