//! Connections: their number and their idle time.

use std::{fs, time::Duration};

use petstore_testkit::{Authority, Client, Installation, Protocol, Server, Tls, grpc, raw};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::{
    io::AsyncWriteExt,
    net::TcpStream,
    time::{Instant, sleep, timeout},
};

use super::{ANSWER_TIMEOUT, GET, connect_from, whole_answer};
use crate::{FIRST_KEY, PORTS, metric, petstore, serve};

/// Request that no limit counts, with a short answer.
const HEAD: &[u8] = b"HEAD /openapi.json HTTP/1.1\r\nHost: a\r\n\r\n";

#[tokio::test]
async fn idle_clients_of_one_address_block_neither_the_admin_port_nor_the_core_nor_others() {
    raise_own_limit();
    let (_installation, server) = start_under("ulimit -n 1024", &[]).await;
    let mut idle = Vec::new();
    for _ in 0..1_015 {
        let mut stream = raw::connect(server.address("REST")).await;
        // Without a first request they would be closed after 9 s, and others would then be served. An error
        // means that the service has closed this one at once, because there were too many.
        let _ = stream.write_all(HEAD).await;
        idle.push(stream);
    }
    let answered = async {
        server.admin().get("/livez").await.assert_status(200);
        assert_eq!(grpc::health(server.address("gRPC"), "").await.unwrap(), grpc::ServingStatus::Serving);
        let mut other = connect_from("127.0.0.2", server.address("REST")).await;
        other.write_all(GET).await.unwrap();
        assert_eq!(status(&mut other).await, "HTTP/1.1 200 OK");
    };
    timeout(ANSWER_TIMEOUT, answered).await.expect("all are answered");
    let closed = ["petstore_connections_refused_total", "petstore_connections_reclaimed_total"];
    assert!(metric(&server, closed[0]).await + metric(&server, closed[1]).await > 600);
    assert!(server.stderr().contains("open_files=1024"), "{}", server.stderr());
}

/// Time in which a client with a key is answered, on a busy machine. A silent connection is closed after 9 s.
const KEYED_TIMEOUT: Duration = Duration::from_secs(5);

#[tokio::test]
async fn strangers_who_hold_all_connections_keep_no_client_with_a_key_out() {
    raise_own_limit();
    let authority = Authority::new();
    let certificate = authority.issue("127.0.0.1");
    let files = ["--https-cert", &certificate.file, "--https-key", &certificate.key_file];
    // 80 connections of REST, 40 of one address
    let flags = [&["--https-addr", "127.0.0.1:0"], &files[..]].concat();
    let (installation, server) = start_under("ulimit -n 256", &flags).await;
    let (rest, secure) = (server.address("REST"), server.address("HTTPS"));
    let key = installation.read(FIRST_KEY).trim().to_owned();
    let get = format!("GET /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {key}\r\n\r\n");
    let mut kept = connect_from("127.0.0.5", rest).await;
    let [http1, http2] = Protocol::ALL.map(|protocol| Tls::trusting(&authority, protocol));
    let greeting = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    for (way, port, tls, begun) in [
        ("silent", rest, None, &b""[..]),
        ("half a head", rest, None, b"GET /docs HT"),
        ("idle after a response", rest, None, GET),
        ("silent", secure, None, b""),
        ("half a handshake", secure, None, b"\x16\x03\x01\x02"),
        ("half a head over TLS", secure, Some(&http1), b"GET /docs HT"),
        ("idle after a response over TLS", secure, Some(&http1), GET),
        ("half a greeting", secure, Some(&http2), &greeting[..9]),
        ("never asks", secure, Some(&http2), greeting),
    ] {
        kept.write_all(get.as_bytes()).await.unwrap();
        assert_eq!(status(&mut kept).await, "HTTP/1.1 200 OK", "it is known, and kept: before {way}");
        let (mut held, mut secured) = (Vec::new(), Vec::new());
        for number in 0..130 {
            // Those over TLS come from the address of the clients with a key. An error: it was closed.
            if let Some(tls) = tls {
                if let Ok(mut stream) = tls.connect(port).await {
                    let _ = stream.write_all(begun).await;
                    secured.push(stream);
                }
            } else {
                let mut stream = connect_from(&format!("127.0.0.{}", 2 + number % 3), port).await;
                let _ = stream.write_all(begun).await;
                held.push(stream);
            }
        }
        let clients = [
            Client::new(rest),
            Client::new(secure).over_tls(&authority, Protocol::Http1),
            Client::new(secure).over_tls(&authority, Protocol::Http2),
        ];
        for client in clients {
            let answered = timeout(KEYED_TIMEOUT, client.with_key(&key).get("/v1/pets")).await;
            answered.unwrap_or_else(|_| panic!("not answered in time: {way}")).assert_status(200);
        }
    }
    assert!(metric(&server, "petstore_connections_reclaimed_total").await > 0);
}

#[tokio::test]
async fn a_burst_of_connections_keeps_no_client_with_a_key_at_the_same_address_out() {
    raise_own_limit();
    let (installation, server) = start_under("ulimit -n 256", &[]).await; // 40 connections of one address
    let client = Client::new(server.address("REST")).with_key(installation.read(FIRST_KEY).trim());
    let mut burst = Vec::new();
    for _ in 0..130 {
        burst.push(raw::connect(server.address("REST")).await);
    }
    let answered = timeout(KEYED_TIMEOUT, client.get("/v1/pets")).await;
    answered.expect("answered in time").assert_status(200);
    assert_eq!(metric(&server, "petstore_connections_refused_total").await, 0);
}

#[tokio::test]
async fn the_soft_limit_of_open_files_is_raised_to_the_hard_one() {
    let (_installation, server) = start_under("ulimit -Sn 256 && ulimit -Hn 3000", &[]).await;
    let limits = fs::read_to_string(format!("/proc/{}/limits", server.pid())).unwrap();
    let files = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    assert_eq!(files.split_whitespace().filter(|word| *word == "3000").count(), 2, "{files}");
}

#[tokio::test]
async fn a_trusted_proxy_has_more_connections_than_one_client_may() {
    raise_own_limit();
    let installation = petstore();
    let flags = serve(&["--trusted-proxy", "127.0.0.1"]);
    let server = installation.start(&flags).await;
    let mut open = Vec::new();
    for _ in 0..1_030 {
        let mut stream = raw::connect(server.address("REST")).await;
        stream.write_all(GET).await.unwrap(); // the head of the first request is not read
        open.push(stream);
    }
    for stream in &mut open {
        assert_eq!(status(stream).await, "HTTP/1.1 200 OK");
    }
}

#[tokio::test]
async fn no_core_dump_is_left() {
    let (installation, server) = start_under("ulimit -c unlimited", &[]).await;
    let limits = fs::read_to_string(format!("/proc/{}/limits", server.pid())).unwrap();
    let dumps = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    assert_eq!(dumps.split_whitespace().filter(|word| *word == "0").count(), 2, "{dumps}");
    let exit = server.ended_by("ABRT").await;
    assert_eq!(exit.code, None, "{exit:?}");
    for entry in fs::read_dir(installation.folder()).unwrap() {
        let name = entry.unwrap().file_name();
        assert!(!name.to_string_lossy().starts_with("core"), "{name:?}");
    }
}

#[tokio::test]
async fn an_idle_connection_is_kept_for_the_time_of_the_setting() {
    let installation = petstore();
    let flags = serve(&["--keep-alive-timeout", "4s"]);
    let server = installation.start(&flags).await;
    let mut stream = raw::connect(server.address("REST")).await;
    let mut begin = Instant::now();
    for pause in [Duration::from_millis(500), Duration::ZERO] {
        begin = Instant::now(); // the service's time begins later, with its answer
        stream.write_all(GET).await.unwrap();
        assert_eq!(status(&mut stream).await, "HTTP/1.1 200 OK");
        sleep(pause).await;
    }
    assert_eq!(raw::read_to_end(&mut stream).await, b"");
    assert!(begin.elapsed() >= Duration::from_millis(3_900), "{:?}", begin.elapsed());
}

/// Reads the next answer with its body. Returns the status line.
async fn status(stream: &mut TcpStream) -> String {
    whole_answer(stream).await.lines().next().unwrap().to_owned()
}

/// Raises this process's own limit, because it opens as many connections as the service.
fn raise_own_limit() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
}

/// Starts `serve` from a shell that has set a limit before.
async fn start_under(limit: &str, flags: &[&str]) -> (Installation, Server) {
    let installation = Installation::of("/bin/sh");
    let script = format!("{limit} && exec \"$0\" \"$@\"");
    let program = env!("CARGO_BIN_EXE_petstore");
    let args = [["-c", &script, program, "serve"].as_slice(), &PORTS, flags].concat();
    let server = installation.start(&args).await;
    server.ready().await;
    (installation, server)
}
