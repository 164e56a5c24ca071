//! Callers without credentials that hold connections of the gRPC port.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use petstore_testkit::{Authority, Installation, Server, eventually, grpc};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpSocket, UnixStream},
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

use crate::{
    key_without_limits, metric,
    split::{Clients, part_is},
};

const PETSTORE: &str = env!("CARGO_BIN_EXE_petstore");
const TOKEN: &str = "0123456789abcdef0123456789abcdef";
/// Limit of open files with which the port has 32 places.
const UNDER_A_LIMIT: &str = "ulimit -n 256 && exec \"$0\" \"$@\"";
const PLACES: usize = 32;
const STRANGERS: usize = 3 * PLACES;
/// Time in which a gateway's new connection must be served.
const SERVED_TIMEOUT: Duration = Duration::from_secs(2);
/// Time in which the first bytes must arrive, on a busy machine.
const CLOSED_TIMEOUT: Duration = Duration::from_secs(15);
const RECLAIMED: &str = "petstore_grpc_connections_reclaimed_total";

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
const SETTINGS_ACK: &[u8] = b"\0\0\0\x04\x01\0\0\0\0";
const PING: &[u8] = b"\0\0\x08\x06\0\0\0\0\0stranger";
/// Beginning of a TLS handshake of 512 bytes.
const HALF_A_HANDSHAKE: &[u8] = b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03";

trait Socket: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Socket for S {}

/// Opens a connection, over TCP from this address.
async fn connect(address: &str, from: &str) -> Option<Box<dyn Socket>> {
    if let Some(path) = address.strip_prefix("unix://") {
        return Some(Box::new(UnixStream::connect(path).await.ok()?));
    }
    let socket = TcpSocket::new_v4().ok()?;
    socket.bind(SocketAddr::new(from.parse().ok()?, 0)).ok()?;
    Some(Box::new(socket.connect(address.parse().ok()?).await.ok()?))
}

/// Holds a connection in one of the ways, until the server closes it.
async fn hold(address: &str, way: usize) -> Option<()> {
    let mut socket = connect(address, ["127.0.0.2", "127.0.0.3", "127.0.0.4"][way % 3]).await?;
    let [first, then]: [&[u8]; 2] = match way % 5 {
        0 => [b"", b""],
        1 => [HALF_A_HANDSHAKE, b""],
        2 => [&PREFACE[..20], b""],
        3 => [PREFACE, b""],
        _ => [PREFACE, PING],
    };
    socket.write_all(first).await.ok()?;
    if !then.is_empty() {
        socket.write_all(SETTINGS_ACK).await.ok()?;
    }
    let mut read = [0; 256];
    loop {
        match timeout(Duration::from_millis(200), socket.read(&mut read)).await {
            Err(_) => socket.write_all(then).await.ok()?,
            Ok(Ok(1..)) => {}
            Ok(_) => return None,
        }
    }
}

/// Keeps connections open, in all the ways, and opens each that the server closes again.
fn flood(address: &str) -> JoinSet<()> {
    let (address, mut strangers) = (Arc::<str>::from(address), JoinSet::new());
    for way in 0..STRANGERS {
        let address = Arc::clone(&address);
        strangers.spawn(async move {
            loop {
                hold(&address, way).await;
                sleep(Duration::from_secs(2)).await;
            }
        });
    }
    strangers
}

async fn start_core(installation: &Installation, address: &str, flags: &[&str]) -> Server {
    let words =
        ["-c", UNDER_A_LIMIT, PETSTORE, "core", "--grpc-addr", address, "--admin-addr", "127.0.0.1:0"];
    installation.start(&[words.as_slice(), flags].concat()).await
}

#[tokio::test]
async fn strangers_that_fill_the_port_keep_no_gateway_out() {
    let authority = Authority::new();
    let (server, client) = (authority.issue("127.0.0.1"), authority.issue("gateway"));
    let (token, trusted) = (authority.keep_token(TOKEN), authority.file());
    let with_token = ["--service-token-file", token.as_str()];
    let tls = ["--tls-cert", &server.file, "--tls-key", &server.key_file, "--tls-client-ca", &trusted];
    let shown = ["--core-ca", &trusted, "--core-cert", &client.file, "--core-key", &client.key_file];
    for (scheme, of_core, of_gateway) in
        [("http", with_token.as_slice(), with_token.as_slice()), ("https", &tls, &shown), ("unix", &[], &[])]
    {
        let (cores, gateways) = (Installation::of("/bin/sh"), Installation::of(PETSTORE));
        let socket = format!("unix://{}", cores.folder().join("core.sock").display());
        let address = if scheme == "unix" { &socket } else { "127.0.0.1:0" };
        // Connections are renewed all the time.
        let flags = [of_core, &["--grpc-connection-age", "300ms"]].concat();
        let core = start_core(&cores, address, &flags).await;
        let store = format!("sqlite://{}", cores.folder().join("data/petstore.db").display());
        let key =
            key_without_limits(&Installation::of(PETSTORE).with_variable("PETSTORE_DATABASE_URL", &store))
                .await;
        let address = if scheme == "unix" { socket } else { core.address("gRPC").to_string() };
        let url = if scheme == "unix" { address.clone() } else { format!("{scheme}://{address}") };
        let gateway = async || {
            let ports = ["--http-addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0"];
            gateways.start(&[["gateway", "--core-url", &url].as_slice(), &ports, of_gateway].concat()).await
        };
        let first = gateway().await;
        part_is(&first, "core", "ok", "").await;

        let strangers = flood(&address);
        eventually(CLOSED_TIMEOUT, async || match metric(&core, RECLAIMED).await {
            reclaimed if reclaimed >= PLACES as u64 => Ok(()),
            reclaimed => Err(format!("{reclaimed} were reclaimed")),
        })
        .await;
        let clients = Clients::start(&first, &key);
        let second = gateway().await;
        part_is(&second, "core", "ok", "").await;
        let begin = Instant::now();
        second.client(&key).get("/v1/pets").await.assert_status(200);
        assert!(begin.elapsed() < SERVED_TIMEOUT, "{scheme}: {:?}", begin.elapsed());
        sleep(Duration::from_secs(2)).await; // as long as several connections live
        clients.assert_all_served().await;
        part_is(&core, "grpc", "ok", "").await;
        drop(strangers);
    }
}

#[tokio::test]
async fn a_silent_connection_is_closed_after_five_seconds() {
    let core = start_core(&Installation::of("/bin/sh"), "127.0.0.1:0", &[]).await;
    let begin = Instant::now();
    let mut silent = connect(&core.address("gRPC").to_string(), "127.0.0.1").await.unwrap();
    let end = timeout(CLOSED_TIMEOUT, silent.read_to_end(&mut Vec::new())).await;
    assert!(end.is_ok() && begin.elapsed() >= Duration::from_secs(4), "{end:?} after {:?}", begin.elapsed());
}

#[tokio::test]
async fn a_port_whose_places_all_have_callers_with_credentials_says_that_others_wait() {
    let installation = Installation::of("/bin/sh");
    let core = start_core(&installation, "127.0.0.1:0", &[]).await;
    let mut callers = Vec::new();
    for _ in 0..PLACES {
        let mut caller = grpc::pet_store(core.address("gRPC")).await;
        caller.list_pets(grpc::pb::ListPetsRequest::default()).await.unwrap();
        callers.push(caller);
    }
    assert_eq!(metric(&core, "petstore_grpc_connections_waiting").await, 0);
    let _waits = connect(&core.address("gRPC").to_string(), "127.0.0.1").await;
    part_is(&core, "grpc", "degraded", "full").await;
    core.admin().get("/readyz").await.assert_status(200);
    assert_eq!(metric(&core, "petstore_grpc_connections_waiting").await, 1);
    callers.pop();
    part_is(&core, "grpc", "ok", "").await;
}
