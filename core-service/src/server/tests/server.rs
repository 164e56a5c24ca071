use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;

use super::*;

#[tokio::test]
async fn health_follows_the_store_and_a_watcher_does_not_delay_the_drain() {
    let shop = Shop::open().await;
    let server = shop.serve(Duration::from_mins(1)).await;
    let mut client = HealthClient::new(server.transport());
    let mut watched = Vec::new();
    for service in ["", "petstore.v1.PetStore", "petstore.v1.StoreService"] {
        let request = HealthCheckRequest { service: service.into() };
        watched.push(client.watch(request).await.unwrap().into_inner());
    }
    for updates in &mut watched {
        while updates.message().await.unwrap().unwrap().status() != ServingStatus::Serving {}
    }
    shop.core.store.database().close().await;
    for updates in &mut watched {
        assert_eq!(updates.message().await.unwrap().unwrap().status(), ServingStatus::NotServing);
    }
    assert!(server.stop().await < Duration::from_secs(10));
}

#[tokio::test]
async fn an_idle_stream_of_reflection_is_ended_and_so_delays_no_drain() {
    let shop = Shop::open().await;
    let server = shop.serve(Duration::from_mins(1)).await;
    let mut client = ServerReflectionClient::new(server.transport());
    let begin = time::Instant::now();
    let mut answers =
        client.server_reflection_info(futures_util::stream::pending()).await.unwrap().into_inner();
    assert!(server.stop().await < Duration::from_secs(30));
    assert!(begin.elapsed() >= BOUNDS.call_timeout, "{:?}", begin.elapsed());
    assert_eq!(answers.message().await.unwrap_err().code(), tonic::Code::DeadlineExceeded);
}

#[tokio::test]
async fn an_idle_connection_that_reads_nothing_does_not_delay_the_drain() {
    let shop = Shop::open().await;
    let server = shop.serve(Duration::from_mins(1)).await;
    let mut unread = TcpStream::connect(server.address).await.unwrap();
    unread.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    PetStoreClient::new(server.transport()).create_pet(new_pet("Rex", PetStatus::Sold)).await.unwrap();
    assert!(server.stop().await < Duration::from_secs(12)); // its keepalive would fail after 15 s
}

#[tokio::test]
async fn silent_connections_are_cut_off_at_the_end_of_the_drain() {
    let shop = Shop::open().await;
    let server = shop.serve(Duration::from_millis(100)).await;
    let mut silent = Vec::new();
    for greeting in [&b""[..], b"PRI * HTTP/2.0\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0"]
    {
        let mut connection = TcpStream::connect(server.address).await.unwrap();
        connection.write_all(greeting).await.unwrap();
        silent.push(connection);
    }
    PetStoreClient::new(server.transport()).create_pet(new_pet("Rex", PetStatus::Sold)).await.unwrap();
    assert!(server.stop().await < Duration::from_secs(3));
    for mut connection in silent {
        let mut rest = Vec::new();
        let end = time::timeout(Duration::from_secs(3), connection.read_to_end(&mut rest)).await;
        assert!(end.is_ok(), "still open");
    }
}

#[tokio::test]
async fn a_connection_gets_goaway_at_its_age_and_its_calls_finish() {
    let shop = Shop::open().await;
    let server = shop.serve_renewing(Duration::from_mins(1), Duration::from_millis(200)).await;
    let mut client = PetStoreClient::new(server.channel());
    let lock = lock_for_writing(&shop.home).await;
    let call = tokio::spawn(async move { client.create_pet(new_pet("Rex", PetStatus::Sold)).await });

    let mut connection = TcpStream::connect(server.address).await.unwrap();
    connection.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    let goaway = async {
        loop {
            let mut head = [0; 9];
            connection.read_exact(&mut head).await.unwrap();
            if head[3] == 7 {
                break;
            }
            let mut payload = vec![0; usize::from(head[1]) << 8 | usize::from(head[2])];
            connection.read_exact(&mut payload).await.unwrap();
        }
    };
    time::timeout(Duration::from_secs(10), goaway).await.expect("a frame GOAWAY");
    lock.rollback().await.unwrap();
    call.await.unwrap().unwrap();
}
