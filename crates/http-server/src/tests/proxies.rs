//! Connections of proxies that name their clients.

use petstore_caller::client_address::TrustedProxies;

use super::*;

/// Every test's own address is that of a proxy.
fn for_proxies(at_once: usize, of_one_address: usize) -> ConnectionSlots {
    let proxies = TrustedProxies::new(vec!["127.0.0.1".parse().unwrap()]);
    ConnectionSlots::new(at_once, of_one_address).exempting(proxies)
}

async fn start(limits: ServerLimits, slots: ConnectionSlots) -> Running {
    Running::serve(Server {
        certificate: None,
        app: Arc::new(app()),
        limits,
        slots,
        proxy_protocol: true,
        hsts: None,
    })
    .await
}

/// Returns the peer that the app sees.
async fn peer(server: &Running, header: &[u8]) -> String {
    let mut stream = server.connect().await;
    let close = GET_PEER.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n");
    stream.write_all(&[header, close.as_bytes()].concat()).await.unwrap();
    let answer = read_all(&mut stream).await;
    answer.split("\r\n\r\n").nth(1).unwrap_or_default().to_owned()
}

#[tokio::test]
async fn the_peer_is_the_client_that_the_proxy_names_or_else_the_proxy() {
    let server = start(patient(), for_proxies(10, 10)).await;
    assert_eq!(peer(&server, b"PROXY TCP4 192.0.2.7 192.0.2.1 4711 443\r\n").await, "192.0.2.7:4711");
    assert_eq!(peer(&server, b"PROXY TCP6 2001:db8::7 ::1 4711 443\r\n").await, "[2001:db8::7]:4711");
    let local = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0";
    for header in [&b"PROXY UNKNOWN\r\n"[..], local] {
        assert!(peer(&server, header).await.starts_with("127.0.0.1:"), "{header:?}");
    }
    server.end().await;
}

#[tokio::test]
async fn a_proxy_that_sends_no_whole_header_leaves_its_slot_in_time() {
    for part in ["", "PROXY", "PROXY TCP4 192.0.2.7 ", "\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c"] {
        let limits = ServerLimits { tls_handshake: SHORT_TIMEOUT, ..patient() };
        let server = start(limits, for_proxies(1, 1)).await;
        let mut silent = server.send(part).await;
        assert_eq!(read_all(&mut silent).await, "", "{part:?}");
        let next = peer(&server, b"PROXY TCP4 192.0.2.7 192.0.2.1 4711 443\r\n").await;
        assert_eq!(next, "192.0.2.7:4711", "the only slot is free again after {part:?}");
        server.end().await;
    }
}

#[tokio::test]
async fn each_client_behind_a_proxy_has_the_connections_of_one_address() {
    let server = start(patient(), for_proxies(10, 1)).await;
    let named = |client: &str| format!("PROXY TCP4 {client} 192.0.2.1 4711 443\r\n{GET_PEER}");
    let mut first = server.send(&named("192.0.2.7")).await;
    read_until(&mut first, "192.0.2.7:4711").await;
    let mut second = server.send(&named("192.0.2.7")).await;
    read_until(&mut second, "192.0.2.7:4711").await;
    assert_eq!(read_all(&mut first).await, "", "it gave way to the second of its client");
    let mut other = server.send(&named("192.0.2.8")).await;
    read_until(&mut other, "192.0.2.8:4711").await;
    drop((second, other));
    server.end().await;
}
