//! Clients that a balancer names by the PROXY protocol.

use std::net::SocketAddr;

use petstore_testkit::{Client, Protocol, Server, raw, servers::HaproxyServer};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::timeout,
};

use super::{ANSWER_TIMEOUT, GET, HttpsService, connect_from, whole_answer};
use crate::{metric, petstore, serve};

/// Address of the proxy in these tests. Clients have others, since all of 127.0.0.0/8 is this machine.
const PROXY: &str = "127.0.0.9";
const FLAGS: [&str; 4] = ["--trusted-proxy", PROXY, "--proxy-protocol", "on"];

/// Starts a balancer that forwards connections from [`PROXY`], not knowing that they carry HTTP.
async fn balancer(header: &str, server: &Server, port: &str) -> HaproxyServer {
    let backend = format!("  mode tcp\n  source {PROXY}\n  default-server {header}\n");
    let servers = [(server.address(port), server.address("admin"))];
    HaproxyServer::start_with_settings("  mode tcp\n", &backend, &servers).await
}

/// Sends a request without a key from an address. Returns how many more that address may send.
async fn remaining(own: &str, address: SocketAddr, header: &str) -> u64 {
    let mut stream = connect_from(own, address).await;
    let request = format!("GET /v1/pets HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{header}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let answer = raw::answer(&raw::read_to_end(&mut stream).await);
    answer.assert_error(401, "MISSING_API_KEY").rate().remaining
}

#[tokio::test]
async fn behind_a_balancer_of_connections_each_client_has_the_limits_of_its_address() {
    let installation = petstore();
    let server = installation.start(&serve(&FLAGS)).await;
    for (number, header) in
        (0..).zip(["send-proxy", "send-proxy-v2", "send-proxy-v2 proxy-v2-options crc32c"])
    {
        let balancer = balancer(header, &server, "REST").await;
        let proxy = balancer.address();
        let [one, other] = [1, 2].map(|last| format!("127.0.{number}.{last}0"));
        assert_eq!(remaining(&one, proxy, "").await, 599, "{header}");
        assert_eq!(remaining(&other, proxy, "").await, 599, "{header}");
        assert_eq!(
            remaining(&one, proxy, "X-Forwarded-For: 203.0.113.1\r\n").await,
            598,
            "{header}: not believed"
        );
    }
}

#[tokio::test]
async fn over_https_the_client_is_named_before_the_handshake() {
    let shop = HttpsService::open(&FLAGS).await;
    let key = async |addresses| {
        let create = ["key", "create", "--account", "first", "--allowed-addresses", addresses];
        shop.installation.run(&create).await.stdout.trim().to_owned()
    };
    let (of_client, of_proxy) = (key("127.0.0.1").await, key(PROXY).await);
    let proxy = balancer("send-proxy-v2", &shop.server, "HTTPS").await;
    for protocol in Protocol::ALL {
        let client = Client::new(proxy.address()).over_tls(&shop.authority, protocol);
        client.with_key(&of_client).get("/v1/pets").await.assert_status(200);
        client.with_key(&of_proxy).get("/v1/pets").await.assert_error(403, "ADDRESS_NOT_ALLOWED");
    }
}

#[tokio::test]
async fn no_field_names_a_client_where_proxies_name_them() {
    let installation = petstore();
    let flags = ["--trusted-proxy", "127.0.0.0/8,10.0.0.0/8,::1/128", "--proxy-protocol", "on"];
    let server = installation.start(&serve(&flags)).await;
    let create = ["key", "create", "--account", "first", "--allowed-addresses", "203.0.113.7"];
    let key = installation.run(&create).await.stdout.trim().to_owned();
    let v2 = |kind: [u8; 2], block: &[u8]| {
        let length = u16::try_from(block.len()).unwrap().to_be_bytes();
        [b"\r\n\r\n\0\r\nQUIT\n", &kind[..], &length, block].concat()
    };
    let of_ipv4 = |client: [u8; 4]| [&client[..], &[192, 0, 2, 1], &[0x12, 0x67, 0x01, 0xbb]].concat();
    let of_ipv6 = [&[0; 15][..], &[1], &[0; 15], &[1], &[0x12, 0x67, 0x01, 0xbb]].concat();
    for (client, header) in [
        ("203.0.113.7", b"PROXY TCP4 203.0.113.7 192.0.2.1 4711 443\r\n".to_vec()),
        ("203.0.113.7", b"PROXY TCP6 ::ffff:203.0.113.7 ::1 4711 443\r\n".to_vec()),
        ("203.0.113.7", v2([0x21, 0x11], &of_ipv4([203, 0, 113, 7]))),
        ("another one", b"PROXY TCP4 198.51.100.1 192.0.2.1 4711 443\r\n".to_vec()),
        ("another proxy", b"PROXY TCP4 10.0.0.7 192.0.2.1 4711 443\r\n".to_vec()),
        ("another proxy", b"PROXY TCP6 ::1 ::1 4711 443\r\n".to_vec()),
        ("another proxy", v2([0x21, 0x11], &of_ipv4([10, 0, 0, 7]))),
        ("another proxy", v2([0x21, 0x21], &of_ipv6)),
        ("unknown", b"PROXY UNKNOWN\r\n".to_vec()),
        ("unknown", b"PROXY UNKNOWN 203.0.113.7 192.0.2.1 4711 443\r\n".to_vec()),
        ("unknown", v2([0x21, 0x00], &of_ipv4([203, 0, 113, 7]))),
        ("local", v2([0x20, 0x11], &of_ipv4([203, 0, 113, 7]))),
        ("a Unix socket", v2([0x21, 0x31], &[b'/'; 216])),
    ] {
        for (field, named) in [
            ("X-Forwarded-For: ", "203.0.113.7"),
            ("X-Forwarded-For: ", "203.0.113.8"),
            ("Forwarded: for=", "203.0.113.7"),
            ("X-Real-IP: ", "203.0.113.7"),
        ] {
            let mut stream = connect_from(PROXY, server.address("REST")).await;
            let request = format!(
                "GET /v1/pets HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\
                 Authorization: Bearer {key}\r\n{field}{named}\r\n\r\n"
            );
            stream.write_all(&[&header[..], request.as_bytes()].concat()).await.unwrap();
            let answer = raw::answer(&raw::read_to_end(&mut stream).await);
            let expected = if client == "203.0.113.7" { 200 } else { 403 };
            assert_eq!(answer.status(), expected, "{client} by {header:?} with {field}{named}: {answer:?}");
        }
    }
}

#[tokio::test]
async fn without_the_header_of_a_trusted_proxy_a_connection_is_closed_with_no_response() {
    let installation = petstore();
    let server = installation.start(&serve(&FLAGS)).await;
    let header = "PROXY TCP4 203.0.113.1 203.0.113.2 4711 443\r\n";
    for (own, header) in [("127.0.0.1", header), (PROXY, ""), (PROXY, "PROXY TCP4 203.0.113.1\r\n")] {
        let mut stream = connect_from(own, server.address("REST")).await;
        let _ = stream.write_all(&[header.as_bytes(), GET].concat()).await; // it may be closed already
        let mut response = Vec::new();
        let _ = timeout(ANSWER_TIMEOUT, stream.read_to_end(&mut response)).await.expect("it is closed");
        assert_eq!(String::from_utf8_lossy(&response), "", "{own} {header:?}");
    }
    assert_eq!(metric(&server, "petstore_connections_refused_total").await, 3);
    let mut stream = connect_from(PROXY, server.address("REST")).await;
    stream.write_all(&[header.as_bytes(), GET].concat()).await.unwrap();
    assert!(whole_answer(&mut stream).await.starts_with("HTTP/1.1 200 OK\r\n"));
}
