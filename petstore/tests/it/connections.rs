//! Connections: their number, their idle time, and their end.

use std::{fs, net::SocketAddr, time::Duration};

use petstore_testkit::{Client, Installation, Protocol, Server, Tls, grpc, raw};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    process::Command,
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

use crate::{PORTS, https::Shop, petstore};

/// Request that no limit counts.
const GET: &[u8] = b"GET /openapi.json HTTP/1.1\r\nHost: a\r\n\r\n";
/// Request that no limit counts, with a short answer.
const HEAD: &[u8] = b"HEAD /openapi.json HTTP/1.1\r\nHost: a\r\n\r\n";
/// Timeout for a busy machine.
const SOON: Duration = Duration::from_secs(15);

#[tokio::test]
async fn idle_clients_of_one_address_silence_neither_the_admin_port_nor_the_core_nor_others() {
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
    timeout(SOON, answered).await.expect("all are answered");
    let metrics = server.admin().get("/metrics").await.text().to_owned();
    let refused = metrics.lines().find(|line| line.starts_with("petstore_connections_refused_total "));
    assert_ne!(refused, Some("petstore_connections_refused_total 0"), "{metrics}");
    assert!(server.stderr().contains("open_files=1024"), "{}", server.stderr());
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
    let flags = [["serve", "--trusted-proxy", "127.0.0.1"].as_slice(), &PORTS].concat();
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
    let flags = [["serve", "--keep-alive-timeout", "4s"].as_slice(), &PORTS].concat();
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

/// Tests the default, which is longer than proxies keep their connections.
#[tokio::test]
async fn an_idle_connection_is_kept_for_longer_than_a_head_may_take() {
    if std::env::var_os("PETSTORE_TEST_LONG").is_none() {
        return;
    }
    let installation = petstore();
    let server = installation.start(&[["serve"].as_slice(), &PORTS].concat()).await;
    let mut stream = raw::connect(server.address("REST")).await;
    for pause in [12, 65] {
        stream.write_all(GET).await.unwrap();
        assert_eq!(status(&mut stream).await, "HTTP/1.1 200 OK");
        sleep(Duration::from_secs(pause)).await;
    }
    stream.write_all(GET).await.unwrap();
    assert_eq!(status(&mut stream).await, "HTTP/1.1 200 OK");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_loses_no_request_of_clients_that_heed_it() {
    let rounds = if std::env::var_os("PETSTORE_TEST_LONG").is_some() { 50 } else { 2 };
    for round in 0..rounds {
        let shop = Shop::open(&["--drain-delay", "200ms"]).await;
        let Shop { server, authority, .. } = &shop;
        let mut clients = JoinSet::new();
        for number in 0..6 {
            let (rest, https) = (server.address("REST"), server.address("HTTPS"));
            let tls = Tls::trusting(authority, Protocol::Http1);
            clients.spawn(async move {
                if number % 2 == 0 {
                    heeding_client(|| async move { TcpStream::connect(rest).await.ok() }).await
                } else {
                    heeding_client(|| async { tls.connect(https).await.ok() }).await
                }
            });
        }
        let http2 = Client::new(server.address("HTTPS")).over_tls(authority, Protocol::Http2);
        clients.spawn(async move { heeding_http2_client(&http2).await });
        sleep(Duration::from_millis(200)).await;
        server.signal("TERM").await;
        while let Some(answered) = clients.join_next().await {
            let Heeded { answered, told } = answered.unwrap();
            assert!(answered > 0 && told > 0, "round {round}: {answered} answers, {told} said to close");
        }
        let exit = shop.server.ended().await;
        assert_eq!(exit.code, Some(0), "round {round}: {exit:?}");
    }
}

/// Result of a client that sends one request after another and obeys `Connection: close`, until it could not
/// open a connection any more. It panics if a request was not answered.
struct Heeded {
    answered: usize,
    /// Number of answers that asked it to open another connection.
    told: usize,
}

async fn heeding_client<S, F>(connect: impl Fn() -> F) -> Heeded
where
    S: AsyncRead + AsyncWrite + Unpin,
    F: Future<Output = Option<S>>,
{
    let mut heeded = Heeded { answered: 0, told: 0 };
    while let Some(mut stream) = connect().await {
        loop {
            stream.write_all(GET).await.unwrap_or_else(|error| panic!("{}: {error}", heeded.answered));
            let head = head(&mut stream).await;
            let len = head
                .to_lowercase()
                .split("content-length: ")
                .nth(1)
                .and_then(|rest| rest.split("\r\n").next().and_then(|len| len.parse::<usize>().ok()));
            let mut body = vec![0; len.unwrap_or_else(|| panic!("after {}: {head:?}", heeded.answered))];
            stream.read_exact(&mut body).await.expect("a whole answer");
            heeded.answered += 1;
            if head.to_lowercase().contains("connection: close") {
                heeded.told += 1;
                break;
            }
        }
    }
    heeded
}

/// Runs such a client over HTTP/2, where the service sends GOAWAY.
async fn heeding_http2_client(client: &Client) -> Heeded {
    let mut heeded = Heeded { answered: 0, told: 0 };
    while let Some(answered) = client.gets_until_told("/openapi.json").await {
        heeded.answered += answered;
        heeded.told += 1;
    }
    heeded
}

#[tokio::test]
async fn curl_sees_why_its_body_was_not_read() {
    let shop = Shop::open(&[]).await;
    let body = shop.installation.folder().join("body");
    fs::write(&body, "x".repeat(70_000)).unwrap();
    let (data, port) = (format!("@{}", body.display()), shop.server.address("HTTPS").port());
    let key = format!("Authorization: Bearer {}", shop.key());
    for (path, fields, expected) in [
        ("/v1/pets", vec![key.as_str(), "Content-Type: application/json"], "413 2"),
        ("/v1/pets", vec![&key, "Content-Type: text/plain"], "415 2"),
        ("/v1/pets", vec!["Content-Type: application/json"], "401 2"),
        ("/v1/nothing", vec![&key], "404 2"),
        ("/v1/usage", vec![&key], "405 2"),
    ] {
        let mut curl = Command::new("curl");
        curl.args(["-sS", "--http2", "-o", "/dev/null", "-w", "%{http_code} %{http_version}", "--insecure"]);
        curl.args(["--data-binary", &data]);
        for field in fields {
            curl.args(["-H", field]);
        }
        let said = curl.arg(format!("https://127.0.0.1:{port}{path}")).output().await.expect("curl runs");
        assert_eq!(String::from_utf8_lossy(&said.stdout), expected, "{said:?}");
        assert!(said.status.success(), "{said:?}");
    }
}

/// Requests that are answered without reading their body.
const UNREAD: [(&str, &[&str]); 2] = [
    (
        "REST",
        &["POST /v1/pets", "PUT /v1/pets/1", "POST /v1/nothing", "OPTIONS /v1/pets", "GET /openapi.json"],
    ),
    ("admin", &["POST /nothing", "PUT /livez", "GET /readyz", "POST /admin/v1/accounts", "POST /metrics"]),
];

/// Tests a form of request that many clients send.
#[tokio::test]
async fn a_body_that_arrives_after_its_refused_head_costs_no_other_request() {
    let installation = petstore();
    let server = installation.start(&[["serve"].as_slice(), &PORTS].concat()).await;
    server.ready().await;
    for (port, requests) in UNREAD {
        let mut stream = raw::connect(server.address(port)).await;
        stream.set_nodelay(true).unwrap();
        for pause in [0, 1, 5, 20].map(Duration::from_millis) {
            for request in requests.iter().chain(requests) {
                let head = format!("{request} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n");
                stream.write_all(head.as_bytes()).await.unwrap();
                sleep(pause).await;
                stream.write_all(b"{\"a\": 1} ").await.unwrap();
                let answer = whole_answer(&mut stream).await;
                if answer.contains("connection: close") {
                    stream = raw::connect(server.address(port)).await; // it took long, and the answer said so
                }
            }
        }
    }
}

#[tokio::test]
async fn slow_clients_of_the_admin_port_silence_neither_health_nor_operators() {
    let installation = petstore();
    let server = installation.start(&[["serve"].as_slice(), &PORTS].concat()).await;
    server.ready().await;
    let mut slow = Vec::new();
    let begin = Instant::now();
    for begun in
        ["", "GET /livez HT", "PUT /log-level HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000\r\n\r\n{"]
    {
        for _ in 0..70 {
            let mut stream = raw::connect(server.address("admin")).await;
            let _ = stream.write_all(begun.as_bytes()).await; // an error: it has been closed for another
            slow.push(stream);
        }
        for path in ["/livez", "/readyz", "/metrics"] {
            let answer = timeout(SOON, server.admin().get(path)).await.expect("an answer in time");
            answer.assert_status(200);
        }
    }
    // Connections that are still open are refused when their time is up.
    let mut last = slow.pop().unwrap();
    let answer = raw::answer(&raw::read_to_end(&mut last).await);
    answer.assert_error_body(408, "REQUEST_TIMEOUT");
    assert!(begin.elapsed() < SOON, "{:?}", begin.elapsed());
}

#[tokio::test]
async fn the_admin_port_takes_bodies_of_64_kib_at_most_and_no_coding_but_chunked() {
    let installation = petstore();
    let server = installation.start(&[["serve"].as_slice(), &PORTS].concat()).await;
    server.ready().await;
    let send = async |fields: &str| {
        let head =
            format!("PUT /log-level HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{fields}\r\n\r\n");
        raw::answer(&raw::exchange(server.address("admin"), head.as_bytes()).await)
    };
    send("Content-Length: 65537").await.assert_error_body(413, "BODY_TOO_LARGE");
    let chunk = format!("10001\r\n{}\r\n", " ".repeat(0x10001));
    let chunks = format!("Transfer-Encoding: chunked\r\n\r\n{chunk}0");
    send(&chunks).await.assert_error_body(413, "BODY_TOO_LARGE");
    let coded = send("Transfer-Encoding: gzip, chunked\r\n\r\n0").await;
    coded.assert_error_body(501, "UNSUPPORTED_TRANSFER_CODING");
}

#[tokio::test]
async fn every_answer_has_one_content_type() {
    let installation = petstore();
    let server = installation.start(&[["serve"].as_slice(), &PORTS].concat()).await;
    server.ready().await;
    let token = installation.read("data/first-operator-token");
    let (key, of_console) = (installation.read("data/first-api-key"), "Petstore-Console: 1\r\n");
    let bearer = |secret: &str| format!("Authorization: Bearer {}\r\n", secret.trim());
    let sign_in = format!("{{\"token\": \"{}\"}}", token.trim());
    let json = "Content-Type: application/json\r\n";
    for (port, request, fields, body) in [
        ("REST", "GET /", "", ""),
        ("REST", "GET /docs", "", ""),
        ("REST", "GET /docs/nothing", "", ""),
        ("REST", "GET /openapi.json", "", ""),
        ("REST", "GET /v1/pets", "", ""),
        ("REST", "GET /v1/pets", &bearer(&key), ""),
        (
            "REST",
            "POST /v1/pets",
            &format!("{}{json}", bearer(&key)),
            "{\"name\": \"Rex\", \"categoryId\": 1}",
        ),
        ("REST", "POST /v1/pets", &bearer(&key), "{"),
        ("admin", "GET /livez", "", ""),
        ("admin", "GET /readyz", "", ""),
        ("admin", "GET /metrics", "", ""),
        ("admin", "GET /log-level", "", ""),
        ("admin", "PUT /log-level", "", "no level="),
        ("admin", "GET /nothing", "", ""),
        ("admin", "GET /admin/v1/accounts", "", ""),
        ("admin", "GET /admin/v1/accounts", &bearer(&token), ""),
        ("admin", "GET /admin/v1/openapi.json", "", ""),
        ("admin", "POST /admin/v1/accounts", &format!("{}{json}", bearer(&token)), "{}"),
        ("admin", "GET /console", "", ""),
        ("admin", "POST /console/session", "", ""),
        ("admin", "POST /console/session", &format!("{of_console}{json}"), "{}"),
        ("admin", "POST /console/session", &format!("{of_console}{json}"), &sign_in),
        ("admin", "GET /console/api/accounts", of_console, ""),
    ] {
        let len = body.len();
        let request = format!(
            "{request} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{fields}\
             Content-Length: {len}\r\n\r\n{body}"
        );
        let answer = raw::answer(&raw::exchange(server.address(port), request.as_bytes()).await);
        let expected = usize::from(!answer.body().is_empty());
        assert_eq!(answer.values("content-type").len(), expected, "{request}: {answer:?}");
    }
}

/// Reads the head of the next answer.
async fn head(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match timeout(SOON, stream.read_u8()).await.expect("an answer in time") {
            Ok(byte) => head.push(byte),
            Err(error) => panic!("no answer: {error}; {:?}", String::from_utf8_lossy(&head)),
        }
    }
    String::from_utf8(head).unwrap()
}

/// Reads the head and the body of the next answer. Returns the head.
async fn whole_answer(stream: &mut TcpStream) -> String {
    let head = head(stream).await;
    let lower = head.to_lowercase();
    let len = lower.split("content-length: ").nth(1).map_or("0", |rest| rest.split("\r\n").next().unwrap());
    let mut body = vec![0; len.parse().unwrap()];
    stream.read_exact(&mut body).await.unwrap();
    head
}

/// Reads the next answer with its body. Returns the status line.
async fn status(stream: &mut TcpStream) -> String {
    whole_answer(stream).await.lines().next().unwrap().to_owned()
}

async fn connect_from(own: &str, address: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(format!("{own}:0").parse().unwrap()).unwrap();
    socket.connect(address).await.unwrap()
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
