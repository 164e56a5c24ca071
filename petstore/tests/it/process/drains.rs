//! Drains by kind of client: no client that obeys its protocol loses a request to SIGTERM.

use std::{
    collections::HashSet,
    fs,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use petstore_testkit::{
    Installation, Server, eventually,
    grpc::{self, Channel, Code, Status, new_pet, pb},
    raw,
    servers::HaproxyServer,
};
use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt, net::TcpStream, task::JoinSet};

use crate::{
    FIRST_KEY, first_client,
    http::{GET, whole_answer},
    key_without_limits, petstore, rounds, serve,
    split::start_gateway,
};

/// Timeout of a step on a busy machine.
const STEP_TIMEOUT: Duration = Duration::from_mins(1);

/// Waits until the process is draining.
async fn draining(server: &Server) {
    eventually(STEP_TIMEOUT, async || {
        let readiness = server.admin().get("/readyz").await;
        match readiness.status() {
            503 if readiness.json()["causes"]["process"]["cause"] == "draining" => Ok(()),
            _ => Err(format!("/readyz: {readiness:?}")),
        }
    })
    .await;
}

/// Waits until the count has grown by this.
async fn grown(count: &AtomicUsize, by: usize) {
    let before = count.load(Ordering::Relaxed);
    eventually(STEP_TIMEOUT, async || match count.load(Ordering::Relaxed) - before {
        grown if grown >= by => Ok(()),
        grown => Err(format!("{grown} of {by}")),
    })
    .await;
}

/// Returns the names of all pets in the store.
async fn names(installation: &Installation) -> Vec<String> {
    let exit = installation.run(&["export"]).await;
    assert_eq!(exit.code, Some(0), "{exit:?}");
    let name = |line: &str| serde_json::from_str::<Value>(line).unwrap()["name"].as_str().unwrap().to_owned();
    exit.stdout.lines().map(name).collect()
}

#[tokio::test]
async fn an_upload_in_progress_at_sigterm_is_accepted_and_answered() {
    let installation = petstore();
    let server = installation.start(&serve(&["--drain-delay", "5m"])).await;
    let (key, body) = (installation.read(FIRST_KEY), r#"{"name":"Rex","categoryId":1}"#);
    let (begun, rest) = body.split_at(10);
    let mut uploads = Vec::new();
    for length in [format!("Content-Length: {}", body.len()), "Transfer-Encoding: chunked".to_owned()] {
        let chunked = length.starts_with('T');
        let chunk = |text: &str| {
            if chunked { format!("{:x}\r\n{text}\r\n", text.len()) } else { text.to_owned() }
        };
        let end = if chunked { "0\r\n\r\n" } else { "" };
        let head = format!(
            "POST /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {}\r\n\
             Content-Type: application/json\r\n{length}\r\n\r\n{}",
            key.trim(),
            chunk(begun)
        );
        let mut stream = raw::connect(server.address("REST")).await;
        stream.write_all(head.as_bytes()).await.unwrap();
        uploads.push((stream, chunk(rest) + end));
    }
    // A request that is answered proves that the service has seen those before it.
    first_client(&installation, &server).get("/v1/pets").await.assert_status(200);
    server.signal("TERM").await;
    draining(&server).await;
    for (mut stream, rest) in uploads {
        stream.write_all(rest.as_bytes()).await.unwrap();
        let answer = raw::answer(&raw::read_to_end(&mut stream).await);
        answer.assert_status(201);
        assert_eq!(answer.header("connection"), "close");
    }
}

#[tokio::test]
async fn an_import_over_grpc_continues_with_the_next_core_and_adds_each_line_once() {
    for _ in 0..rounds(1, 20) {
        let installation = petstore();
        let address = format!("unix://{}/core.sock", installation.folder().display());
        // So short a deadline cuts off the call in flight, whose lines the client then sends again.
        let core =
            ["core", "--grpc-addr", &address, "--admin-addr", "127.0.0.1:0", "--drain-deadline", "1ms"];
        let lines: Vec<_> = (1..=30_000).map(|line| format!("line {line}")).collect();
        let file: String =
            lines.iter().map(|name| json!({"name": name, "categoryId": 1}).to_string() + "\n").collect();
        let without_a_store = petstore();
        fs::write(without_a_store.folder().join("pets.ndjson"), file).unwrap();
        let running = installation.start(&core).await;
        let drain_and_come_back = async {
            eventually(STEP_TIMEOUT, async || match names(&installation).await.len() {
                0 => Err("no pets".to_owned()),
                _ => Ok(()),
            })
            .await;
            let exit = running.terminate().await;
            assert_eq!(exit.code, Some(0), "{exit:?}");
            installation.start(&core).await
        };
        let args = ["import", "pets.ndjson", "--core-url", &address];
        let (exit, _running) = tokio::join!(without_a_store.run(&args), drain_and_come_back);
        assert_eq!(exit.code, Some(0), "{exit:?}");
        assert_eq!(names(&installation).await, lines);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn grpc_clients_that_reconnect_lose_and_duplicate_no_call() {
    for _ in 0..rounds(1, 20) {
        let installation = petstore();
        let server = installation.start(&serve(&["--drain-delay", "300ms"])).await;
        let (address, answered) = (server.address("gRPC"), Arc::new(AtomicUsize::new(0)));
        let mut clients = JoinSet::new();
        for client in 0..4 {
            let (channel, answered) = (grpc::channel(address).await, Arc::clone(&answered));
            for stream in 0..4 {
                let (channel, answered) = (channel.clone(), Arc::clone(&answered));
                clients.spawn(adds_pets(address, channel, format!("{client}/{stream}"), answered));
            }
        }
        grown(&answered, 100).await;
        server.signal("TERM").await;
        let added: HashSet<_> = clients.join_all().await.into_iter().flatten().collect();
        let exit = server.ended().await;
        assert_eq!(exit.code, Some(0), "{exit:?}");
        let names = names(&installation).await;
        assert_eq!(names.len(), added.len(), "pets twice, or added without an answer");
        assert_eq!(names.into_iter().collect::<HashSet<_>>(), added);
    }
}

/// Adds pets one after another, until no connection can be opened. Returns the names of those added. A call
/// that the connection no longer took is made again on the next one, under its name.
async fn adds_pets(
    address: SocketAddr,
    channel: Channel,
    name: String,
    answered: Arc<AtomicUsize>,
) -> Vec<String> {
    let (mut pets, mut added) = (pb::pet_store_client::PetStoreClient::new(channel), Vec::new());
    for number in 0.. {
        let name = format!("{name}/{number}");
        let pet = Some(new_pet(&name, Some(1), pb::PetStatus::Sold));
        let request = pb::CreatePetRequest { pet, request_id: name.clone() };
        loop {
            match pets.create_pet(request.clone()).await {
                Ok(_) => break,
                Err(status) if was_not_sent(&status) => {
                    if TcpStream::connect(address).await.is_err() {
                        return added;
                    }
                }
                Err(status) => panic!("{name} was lost: {status:?}"),
            }
        }
        answered.fetch_add(1, Ordering::Relaxed);
        added.push(name);
    }
    added
}

/// Returns `true` if the call failed before it was sent: the service refused the connection, or GOAWAY
/// arrived first, so that it was not processed (RFC 9113 §6.8).
fn was_not_sent(status: &Status) -> bool {
    let error = format!("{status:?}");
    status.code() == Code::Unavailable && error.contains("Connect")
        || error.contains("Canceled")
        || error.contains("GoAway(b\"\", NO_ERROR, Remote)")
}

#[tokio::test]
async fn a_console_session_is_served_during_the_drain_and_continues_after_a_restart() {
    let installation = petstore();
    let port = format!("127.0.0.1:{}", petstore_testkit::free_port());
    let flags = ["serve", "--http-addr", "127.0.0.1:0", "--grpc-addr", "127.0.0.1:0", "--admin-addr", &port];
    let flags = [flags.as_slice(), &["--drain-delay", "1s"]].concat();
    let server = installation.start(&flags).await;
    let token = installation.read("data/first-operator-token");
    let browser = server.admin().with_header("petstore-console", "1");
    let body = json!({ "token": token.trim() }).to_string();
    let session = browser.send("POST", "/console/session", &[], body).await;
    let cookie = session.assert_status(200).header("set-cookie").split(';').next().unwrap().to_owned();
    let browser = browser.with_header("cookie", &cookie);
    browser.get("/console/api/accounts").await.assert_status(200);
    server.signal("TERM").await;
    draining(&server).await;
    let during = browser.get("/console/api/accounts").await;
    during.assert_status(200);
    assert_eq!(during.header("connection"), "close", "{during:?}");
    let exit = server.ended().await;
    assert_eq!(exit.code, Some(0), "{exit:?}");
    let _server = installation.start(&flags).await;
    browser.get("/console/api/accounts").await.assert_status(200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_behind_a_proxy_that_keeps_connections_lose_no_request() {
    let installation = petstore();
    let core =
        installation.start(&["core", "--grpc-addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0"]).await;
    let key = key_without_limits(&installation).await;
    let installation = installation.with_variable("PETSTORE_DRAIN_DELAY", "1s");
    let core = core.address("gRPC").to_string();
    for _ in 0..rounds(1, 20) {
        let gateways = [start_gateway(&installation, &core).await, start_gateway(&installation, &core).await];
        for gateway in &gateways {
            gateway.ready().await;
        }
        let servers = gateways.each_ref().map(|it| (it.address("REST"), it.address("admin")));
        let proxy = HaproxyServer::start(&servers).await;
        let (answered, ends) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let post = format!(
            "POST /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {key}\r\n\
             Content-Type: application/json\r\nContent-Length: 29\r\n\r\n\
             {{\"name\":\"Rex\",\"categoryId\":1}}"
        );
        let mut clients = JoinSet::new();
        for client in 0..8 {
            let request = if client % 2 == 0 { GET.to_vec() } else { post.clone().into_bytes() };
            let (answered, ends, address) = (Arc::clone(&answered), Arc::clone(&ends), proxy.address());
            clients.spawn(async move {
                let mut stream = TcpStream::connect(address).await.unwrap();
                while !ends.load(Ordering::Relaxed) {
                    stream.write_all(&request).await.unwrap();
                    let head = whole_answer(&mut stream).await;
                    assert!(head.starts_with("HTTP/1.1 20"), "{head}");
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        grown(&answered, 100).await;
        let [drained, left] = gateways;
        let exit = drained.terminate().await;
        assert_eq!(exit.code, Some(0), "{exit:?}");
        grown(&answered, 100).await;
        ends.store(true, Ordering::Relaxed);
        clients.join_all().await;
        drop(left);
    }
}
