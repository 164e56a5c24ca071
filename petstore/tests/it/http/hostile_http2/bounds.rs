//! Peers that send more than the limits allow, or read less than they requested.

use std::time::Duration;

use petstore_testkit::{eventually, grpc};
use tokio::{io::AsyncWriteExt, sync::oneshot};

use super::{
    Port, Target,
    frames::{
        DATA, HEADERS, INITIAL_WINDOW_SIZE, MAX_CONCURRENT_STREAMS, PING, Peer, REFUSED_STREAM, RST_STREAM,
        SETTINGS, WINDOW_UPDATE, frame, greeting, page_request, unfinished_request,
    },
};
use crate::{key_without_limits, memory, metric};

/// Timeout of closing a connection whose peer reads nothing, far longer than necessary.
const CLOSE_TIMEOUT: Duration = Duration::from_mins(1);

#[tokio::test]
async fn more_concurrent_requests_than_announced_are_refused() {
    for port in Port::ALL {
        let target = Target::open(port).await;
        let (most, beyond) = (port.most_streams(), 20);
        let mut peer = Peer::greet(target.connect().await, None).await;
        let requests: Vec<u8> =
            (0..most + beyond).flat_map(|n| unfinished_request(port, 2 * n + 1, &target.key())).collect();
        peer.send(&requests).await.unwrap();
        let (mut announced, mut refused) = (None, Vec::new());
        while refused.len() < usize::try_from(beyond).unwrap() {
            let frame = peer.next().await;
            match frame.kind {
                SETTINGS => announced = announced.or(frame.setting(MAX_CONCURRENT_STREAMS)),
                RST_STREAM if frame.number(0) == REFUSED_STREAM => refused.push(frame.stream),
                _ => {}
            }
        }
        assert_eq!(announced, Some(most), "{port:?}");
        let expected: Vec<_> = (most..most + beyond).map(|n| 2 * n + 1).collect();
        assert_eq!(refused, expected, "{port:?}");
        target.serves_others().await;
        target.ends_in_order().await;
    }
}

#[tokio::test]
async fn answers_without_a_window_wait_within_bounds() {
    for (port, window) in Port::ALL.into_iter().flat_map(|port| [(port, 0), (port, 1)]) {
        let target = Target::open(port).await;
        target.fill().await;
        let mut peer = Peer::greet(target.connect().await, Some((INITIAL_WINDOW_SIZE, window))).await;
        let key = target.key();
        let (kept, dropped) = oneshot::channel();
        let attack = async move {
            let most = port.most_streams();
            for number in 0..most {
                peer.send(&page_request(port, 2 * number + 1, &key)).await.unwrap();
            }
            // Every answer has begun, and none continues.
            let (mut begun, mut taken) = (0, 0);
            while begun < most {
                let frame = peer.next().await;
                match frame.kind {
                    HEADERS => begun += 1,
                    DATA => taken += frame.payload.len(),
                    _ => {}
                }
            }
            assert!(taken <= usize::try_from(most * window).unwrap(), "{port:?}: {taken} bytes");
            let _ = kept.send(peer);
        };
        target.withstands("no window", attack).await;
        let _peer = dropped.await.unwrap(); // kept until the end of the service
        target.ends_in_order().await;
    }
}

/// Maximum growth of the service's memory by responses that nobody reads, in bytes.
const UNREAD: u64 = 150 << 20;

#[tokio::test]
async fn responses_that_many_connections_leave_unread_take_a_bounded_memory() {
    let target = Target::open(Port::Https).await;
    target.fill().await;
    let key = key_without_limits(&target.installation).await;
    let before = memory(&target.server, "VmRSS");
    let mut peers = Vec::new();
    for number in 0..24 {
        // With a window of one byte a response is in the buffers of its stream, without one in its task.
        let window = Some((INITIAL_WINDOW_SIZE, number % 2));
        let mut peer = Peer::greet(target.connect().await, window).await;
        for number in 0..Port::Https.most_streams() {
            peer.send(&page_request(Port::Https, 2 * number + 1, &key)).await.unwrap();
        }
        peers.push(peer);
        target.serves_others().await;
        let grown = memory(&target.server, "VmRSS").saturating_sub(before);
        assert!(grown < UNREAD, "{number}: {} KiB more are in use", grown >> 10);
    }
    eventually(CLOSE_TIMEOUT, async || {
        match metric(&target.server, "petstore_connections_reclaimed_total").await {
            closed if closed >= 10 => Ok(()),
            closed => Err(format!("only {closed} connections were closed")),
        }
    })
    .await;
    let grown = memory(&target.server, "VmRSS").saturating_sub(before);
    assert!(grown < UNREAD, "{} KiB more are in use", grown >> 10);
    target.serves_others().await;
    target.ends_in_order().await;
}

#[tokio::test]
async fn a_peer_that_reads_nothing_is_closed() {
    let at = async |port: Port| {
        let target = Target::open(port).await;
        target.fill().await;
        let largest = (1 << 31) - 1;
        let mut peer = Peer::greet(target.connect().await, Some((INITIAL_WINDOW_SIZE, largest))).await;
        peer.send(&frame(WINDOW_UPDATE, 0, 0, &(largest - 65_535).to_be_bytes())).await.unwrap();
        for number in 0..port.most_streams() {
            peer.send(&page_request(port, 2 * number + 1, &target.key())).await.unwrap();
        }
        let peer = tokio::sync::Mutex::new(peer);
        eventually(CLOSE_TIMEOUT, async || {
            target.serves_others().await;
            match peer.lock().await.send(&frame(PING, 0, 0, b"whatever")).await {
                Ok(()) => Err("still open".to_owned()),
                Err(_closed) => Ok(()),
            }
        })
        .await;
        target.ends_in_order().await;
    };
    tokio::join!(at(Port::Https), at(Port::Grpc));
}

#[tokio::test]
async fn half_a_greeting_delays_neither_others_nor_the_stop() {
    for port in Port::ALL {
        let target = Target::open(port).await;
        let before = memory(&target.server, "VmRSS");
        let mut half = Vec::new();
        for number in 0..200 {
            let mut wire = target.connect().await;
            let greeting = greeting(None);
            wire.write_all(&greeting[..number % greeting.len()]).await.unwrap();
            wire.flush().await.unwrap();
            half.push(wire);
        }
        target.serves_others().await;
        let grown = memory(&target.server, "VmRSS").saturating_sub(before);
        assert!(grown < super::MEMORY, "{port:?}: {} KiB more are in use", grown >> 10);
        target.ends_in_order().await;
    }
}

#[tokio::test]
async fn metadata_over_the_limit_fails_one_call_and_not_the_connection() {
    let target = Target::open(Port::Grpc).await;
    let channel = grpc::channel(target.server.address("gRPC")).await;
    let mut client = grpc::pb::pet_store_client::PetStoreClient::new(channel);
    for (len, is_taken) in [(7 << 10, true), (9 << 10, false), (200 << 10, false)] {
        let mut request = grpc::Request::new(grpc::pb::ListPetsRequest::default());
        request.metadata_mut().insert("x-field", "v".repeat(len).parse().unwrap());
        let answer = client.list_pets(request).await;
        assert_eq!(answer.is_ok(), is_taken, "{len}: {answer:?}");
        client.list_pets(grpc::pb::ListPetsRequest::default()).await.unwrap();
    }
    target.ends_in_order().await;
}
