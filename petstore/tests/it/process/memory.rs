//! Bounds of the memory and of the open files of a process under load, and after it.

use std::{fs, time::Duration};

use futures_util::future::join_all;
use petstore_testkit::{
    Engine, Server, eventually,
    grpc::{self, new_pet, pb},
    load::{Bounds, Load, Sender},
    raw,
};
use tokio::{io::AsyncWriteExt, time::timeout};

use crate::{key_without_limits, memory, petstore, petstore_on, rounds, serve};

/// Maximum number of bytes that the core may keep after any load: page caches of five SQLite connections (10
/// MiB), prepared statements, and 10,000 pets (`--pet-cache`).
const CEILING: u64 = 24 * 1024 * 1024;

#[tokio::test]
#[ignore = "reads 38,400 lists: scripts/test --long"]
async fn the_memory_of_a_core_is_bounded_under_concurrent_lists() {
    let installation = petstore();
    let server = installation.start(&serve(&[])).await;
    let mut pets = grpc::pet_store(server.address("gRPC")).await;
    let request = |status| pb::CreatePetRequest {
        pet: Some(new_pet("x".repeat(100), Some(1), status)),
        ..Default::default()
    };
    for _ in 0..10 {
        let requests = (0..1_000).map(|number| request(number % 4)).collect();
        pets.batch_create_pets(pb::BatchCreatePetsRequest { requests }).await.unwrap();
    }
    let before = memory(&server, "RssAnon");
    let (mut highest, mut answered) = (0, 0);
    for round in 0..600 {
        let lists = (0..64).map(|number| {
            let mut pets = pets.clone();
            async move {
                let (page_size, status) = (1 + (round * 7 + number) % 100, number % 4 * (round % 2));
                pets.list_pets(pb::ListPetsRequest { page_size, page_token: String::new(), status }).await
            }
        });
        // The core may refuse what is beyond its capacity.
        answered += join_all(lists).await.iter().filter(|list| list.is_ok()).count();
        highest = highest.max(memory(&server, "RssAnon").saturating_sub(before));
        assert!(highest < CEILING, "{highest} bytes more after {round} rounds");
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    println!("{highest} bytes more at most, {answered} lists");
    assert!(answered > 600 * 64 / 2, "only {answered} lists were answered");
}

/// Maximum number of open files of an idle process: its ports, its runtime, the files or connections of its
/// store.
const IDLE_FILES: usize = 64;
/// Number of connections of each kind that a wave breaks off.
const BROKEN: usize = 30;
/// Number of connections that carry the requests of a wave.
const KEPT: usize = 64;
/// Maximum growth of the memory from the first wave to any later one, in bytes.
const GROWTH: u64 = 16 * 1024 * 1024;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn open_files_and_memory_return_to_their_bounds_after_each_wave_of_load() {
    let waves = rounds(2, 100);
    let installation = petstore_on(Engine::of_this_run()).await;
    let server = installation.start(&serve(&[])).await;
    let key = key_without_limits(&installation).await;
    let (mut first, mut most_files, mut most_memory) = (None, 0, 0);
    for wave in 0..waves {
        let during = send_wave(&server, &key).await;
        most_files = most_files.max(during);
        let idle = eventually(Duration::from_secs(20), async || match open_files(&server) {
            files if files <= IDLE_FILES => Ok(files),
            files => Err(format!("wave {wave}: {files} files are open, and were {during}")),
        })
        .await;
        let memory = memory(&server, "RssAnon");
        let grown = memory.saturating_sub(*first.get_or_insert(memory));
        assert!(grown < GROWTH, "wave {wave}: {grown} bytes more than after the first");
        most_memory = most_memory.max(grown);
        if wave % 20 == 0 {
            println!("wave {wave}: {during} files, then {idle}; {} KiB", memory >> 10);
        }
    }
    assert!(most_files > IDLE_FILES, "the load opened only {most_files} files");
    println!("{waves} waves: {most_files} files, and {most_memory} bytes more than after the first, at most");
}

/// Sends one wave of load to every port: requests over kept connections, and connections that are broken off
/// at every stage. Returns the number of open files before the last connections are closed.
async fn send_wave(server: &Server, key: &str) -> usize {
    let [rest, admin, grpc] = ["REST", "admin", "gRPC"].map(|port| server.address(port));
    let sender = Sender { account: 0, key: key.to_owned() };
    let load = Load::new(&[rest], &[sender]).over(KEPT);
    let records = load.closed_loop(Bounds { requests: 10 * KEPT, time: Duration::from_secs(30) }).await;
    let answered = records.iter().filter(|record| record.status == Ok(200)).count();
    assert!(answered >= KEPT, "only {answered} of {} requests were answered", records.len());

    let post = format!("POST /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {key}\r\n");
    let half_a_body = format!("{post}Content-Type: application/json\r\nContent-Length: 99\r\n\r\n{{");
    let get = format!("GET /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {key}\r\n\r\n");
    let stranger = "GET /v1/pets HTTP/1.1\r\nHost: a\r\n\r\n";
    let metrics = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let mut broken = Vec::new();
    for (port, begun) in [
        (rest, ""),
        (rest, "GET /v1/pe"),
        (rest, &half_a_body),
        (rest, &get),
        (rest, stranger),
        (admin, metrics),
        (grpc, "PRI * HTTP/2.0\r\n\r\nSM"),
    ] {
        for _ in 0..BROKEN {
            let mut stream = raw::connect(port).await;
            let _ = stream.write_all(begun.as_bytes()).await; // an error: it was closed for another
            broken.push(stream);
        }
    }
    let imports = (0..BROKEN).map(async |_| {
        let mut pets = grpc::pet_store(grpc).await;
        let import = pets.import_pets(grpc::silence::<pb::ImportPetsRequest>());
        let _ = timeout(Duration::from_millis(20), import).await;
    });
    join_all(imports).await;
    server.admin().get("/livez").await.assert_status(200);
    open_files(server)
}

/// Returns the number of the process's descriptors.
fn open_files(server: &Server) -> usize {
    fs::read_dir(format!("/proc/{}/fd", server.pid())).unwrap().count()
}
