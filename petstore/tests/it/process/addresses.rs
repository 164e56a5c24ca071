//! Addresses of other servers, in the forms that their own clients take: IPv6, and PostgreSQL's socket.

use std::{net::SocketAddr, path::Path};

use petstore_testkit::{
    TraceReceiver, eventually,
    servers::{PostgresServer, RedisOptions, RedisServer},
};
use serde_json::json;
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream, UnixListener},
};

use crate::{first_client, petstore, serve};

/// Time for the first spans to arrive.
const SPAN_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(20);

/// Returns an IPv6 address that leads to a server on IPv4.
async fn over_ipv6(server: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("[::1]:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut server = TcpStream::connect(server).await.unwrap();
                let _ = copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    address
}

/// Makes PostgreSQL's socket in a folder, which leads to a server on IPv4.
fn over_a_socket(server: SocketAddr, folder: &Path) {
    let listener = UnixListener::bind(folder.join(".s.PGSQL.5432")).unwrap();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut server = TcpStream::connect(server).await.unwrap();
                let _ = copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
}

fn host_of(url: &str) -> SocketAddr {
    let (_, rest) = url.rsplit_once('@').unwrap_or_else(|| url.split_once("://").unwrap());
    rest.split('/').next().unwrap().parse().unwrap()
}

#[tokio::test]
async fn postgresql_is_reached_at_an_ipv6_address_and_at_a_socket_without_a_host() {
    let url = PostgresServer::shared().await.database().await.url();
    let host = host_of(&url).to_string();
    let folder = tempfile::tempdir_in("/tmp").unwrap(); // the path of a socket is short
    over_a_socket(host_of(&url), folder.path());
    let socket = folder.path().display().to_string();
    let address = over_ipv6(host_of(&url)).await;
    for (before, after) in [
        (format!("@{host}"), format!("@{address}")),
        (format!("@{host}"), format!("@:{}", address.port())),
        (format!("@{host}"), "@".to_owned()),
    ] {
        let other = match after.as_str() {
            "@" => format!("?host={socket}"),
            after if after.starts_with("@:") => "?host=::1".to_owned(),
            _ => String::new(),
        };
        let url = url.replace(&before, &after) + &other;
        let installation = petstore().with_variable("PETSTORE_DATABASE_URL", &url);
        for command in [["migrate", "up"], ["migrate", "status"], ["account", "list"]] {
            let exit = installation.run(&command).await;
            assert_eq!(exit.code, Some(0), "{after} {command:?}: {exit:?}");
        }
        let server = installation.start(&serve(&[])).await;
        assert_eq!(server.ready().await.json()["parts"]["database"], "ok", "{after}");
    }
}

#[tokio::test]
async fn every_port_and_every_other_server_may_have_an_ipv6_address() {
    let (redis, traces) = (RedisServer::start(RedisOptions::default()).await, TraceReceiver::start().await);
    let redis = format!("redis://{}", over_ipv6(host_of(&redis.url())).await);
    let endpoint = format!("http://{}", over_ipv6(host_of(traces.url())).await);
    let installation = petstore();
    let ports = ["--http-addr", "[::1]:0", "--grpc-addr", "[::1]:0", "--admin-addr", "[::1]:0"];
    let others = ["--redis-url", &redis, "--otlp-endpoint", &endpoint, "--trace-ratio", "1"];
    let server = installation.start(&[["serve"].as_slice(), &ports, &others].concat()).await;
    first_client(&installation, &server).get("/v1/pets").await.assert_status(200);
    let ready = server.ready().await.json();
    assert_eq!((&ready["status"], &ready["parts"]["limiter"]), (&json!("ok"), &json!("ok")), "{ready}");
    eventually(
        SPAN_TIMEOUT,
        async || {
            if traces.spans().is_empty() { Err("no span".to_owned()) } else { Ok(()) }
        },
    )
    .await;

    let core = format!("http://{}", server.address("gRPC"));
    let admin = format!("http://{}", server.address("admin"));
    let flags = ["gateway", "--core-url", &core, "--http-addr", "[::1]:0", "--admin-addr", "[::1]:0"];
    let gateway = installation.start(&flags).await;
    first_client(&installation, &gateway).get("/v1/pets").await.assert_status(200);
    for args in [["health", "--admin-url", &admin], ["export", "--core-url", &core]] {
        let exit = installation.run(&args).await;
        assert_eq!(exit.code, Some(0), "{exit:?}");
    }
}
