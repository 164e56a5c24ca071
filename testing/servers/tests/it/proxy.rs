//! Faults of the proxy, in front of an echo server.

use std::{
    io::ErrorKind,
    time::{Duration, Instant},
};

use petstore_test_servers::{
    eventually,
    faults::{Fault, Proxy},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::timeout,
};

/// Time that is enough for anything that is not held up.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// Time that is enough to see that nothing arrives.
const SILENCE_INTERVAL: Duration = Duration::from_millis(100);

#[tokio::test]
async fn bytes_and_ends_pass_in_both_directions() {
    let (_proxy, mut client) = echo().await;
    let sent = vec![7_u8; 1_000_000];
    let (mut reader, mut writer) = client.split();
    let write = async {
        writer.write_all(&sent).await.unwrap();
        writer.shutdown().await.unwrap();
    };
    let mut got = Vec::new();
    let ((), read) = tokio::join!(write, timeout(ANSWER_TIMEOUT, reader.read_to_end(&mut got)));
    read.unwrap().unwrap();
    assert_eq!(got.len(), sent.len());
}

#[tokio::test]
async fn a_delay_adds_to_each_answer_and_not_to_the_sum() {
    let (proxy, mut client) = echo().await;
    proxy.set(Fault::delay_ms(500)).await;
    let start = Instant::now();
    for _ in 0..10 {
        client.write_all(b"x").await.unwrap();
        tokio::time::sleep(Duration::from_millis(5)).await; // so that they arrive as ten pieces
    }
    assert_eq!(read(&mut client, 10).await.len(), 10);
    let took = start.elapsed();
    // Their sum is 5 s.
    assert!((Duration::from_millis(540)..Duration::from_millis(4_500)).contains(&took), "took {took:?}");
}

#[tokio::test]
async fn a_black_hole_holds_everything_until_it_ends() {
    let (proxy, mut old) = echo().await;
    proxy.set(Fault::Blackhole).await;
    let mut new = TcpStream::connect(proxy.address()).await.unwrap();
    for client in [&mut old, &mut new] {
        client.write_all(b"x").await.unwrap();
        assert_silent(client).await;
    }
    proxy.set(Fault::None).await;
    for client in [&mut old, &mut new] {
        assert_eq!(read(client, 1).await, b"x");
    }
}

#[tokio::test]
async fn a_refusing_proxy_looks_like_a_dead_server_at_the_same_address() {
    let (proxy, mut old) = echo().await;
    proxy.set(Fault::CloseOnAccept).await;
    let mut closed = TcpStream::connect(proxy.address()).await.unwrap();
    closed.write_all(b"x").await.unwrap();
    assert_eq!(closed.read(&mut [0]).await.unwrap(), 0);
    drop(closed); // the kernel keeps it for a minute, on the proxy's port
    proxy.set(Fault::Refuse).await;
    assert_reset(&mut old).await;
    let refused = TcpStream::connect(proxy.address()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    let taken = TcpListener::bind(proxy.address()).await.unwrap_err();
    assert_eq!(taken.kind(), ErrorKind::AddrInUse, "its port can be had by another server");
    proxy.set(Fault::None).await;
    let mut new = TcpStream::connect(proxy.address()).await.unwrap();
    new.write_all(b"x").await.unwrap();
    assert_eq!(read(&mut new, 1).await, b"x");
    assert_eq!(proxy.connections(), 3);
}

#[tokio::test]
async fn new_connections_are_reset_while_old_ones_continue() {
    let (proxy, mut old) = echo().await;
    proxy.set(Fault::ResetOnAccept).await;
    // The reset may come before `connect` returns, or after.
    if let Ok(mut new) = TcpStream::connect(proxy.address()).await {
        assert_reset(&mut new).await;
    }
    old.write_all(b"x").await.unwrap();
    assert_eq!(read(&mut old, 1).await, b"x");
}

#[tokio::test]
async fn a_single_cut_loses_one_answer_and_spares_the_retry() {
    let (target, mut seen) = recorder().await;
    let proxy = Proxy::to(target).await;
    let mut client = TcpStream::connect(proxy.address()).await.unwrap();
    proxy.set(Fault::CutOnce { response_bytes: 3 }).await;
    client.write_all(b"create").await.unwrap();
    assert_eq!(read(&mut client, 3).await, b"cre");
    assert_reset(&mut client).await;
    assert_eq!(seen.recv().await.as_deref(), Some(b"create".as_slice()));

    let mut retry = TcpStream::connect(proxy.address()).await.unwrap();
    retry.write_all(b"create").await.unwrap();
    assert_eq!(read(&mut retry, 6).await, b"create");
    assert_eq!(proxy.cuts(), 1);
}

#[tokio::test]
async fn an_absent_target_resets_the_client_and_a_dropped_proxy_refuses_it() {
    let (proxy, _client) = echo().await;
    let address = proxy.address();
    drop(proxy);
    eventually(ANSWER_TIMEOUT, async || match TcpStream::connect(address).await {
        Ok(_) => Err("it is accepted".to_owned()),
        Err(_) => Ok(()),
    })
    .await;

    let nobody = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap()
    };
    let proxy = Proxy::to(nobody).await;
    let mut client = TcpStream::connect(proxy.address()).await.unwrap();
    assert_reset(&mut client).await;
}

/// Returns a proxy in front of an echo server, and one client that has been served once.
async fn echo() -> (Proxy, TcpStream) {
    let (target, _) = recorder().await;
    let proxy = Proxy::to(target).await;
    let mut client = TcpStream::connect(proxy.address()).await.unwrap();
    client.set_nodelay(true).unwrap();
    client.write_all(b"?").await.unwrap();
    assert_eq!(read(&mut client, 1).await, b"?");
    (proxy, client)
}

/// Returns an echo server, and a receiver of the bytes that it receives.
async fn recorder() -> (std::net::SocketAddr, tokio::sync::mpsc::UnboundedReceiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, seen) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let sender = sender.clone();
            stream.set_nodelay(true).unwrap();
            tokio::spawn(async move {
                let mut bytes = vec![0; 65_536];
                while let Ok(count @ 1..) = stream.read(&mut bytes).await {
                    let got = bytes.get(..count).unwrap();
                    let _ = sender.send(got.to_vec());
                    if stream.write_all(got).await.is_err() {
                        break;
                    }
                }
            });
        }
    });
    (address, seen)
}

async fn read(client: &mut TcpStream, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    timeout(ANSWER_TIMEOUT, client.read_exact(&mut bytes)).await.expect("it comes soon").unwrap();
    bytes
}

async fn assert_silent(client: &mut TcpStream) {
    let mut byte = [0];
    assert!(timeout(SILENCE_INTERVAL, client.peek(&mut byte)).await.is_err(), "something came");
}

async fn assert_reset(client: &mut TcpStream) {
    let end = timeout(ANSWER_TIMEOUT, client.read(&mut [0])).await.expect("it is still open");
    assert_eq!(end.unwrap_err().kind(), ErrorKind::ConnectionReset);
}
