//! Bound of a core's memory under load.

use std::{fs, time::Duration};

use petstore_testkit::{
    Server,
    grpc::{self, new_pet, pb},
};

use crate::{petstore, serve};

/// Maximum number of bytes that the core may keep after any load: page caches of five SQLite connections (10
/// MiB), prepared statements, and 10,000 pets (`--pet-cache`).
const CEILING: u64 = 24 * 1024 * 1024;

#[tokio::test]
async fn the_memory_of_a_core_is_bounded_under_concurrent_lists() {
    if std::env::var_os("PETSTORE_TEST_LONG").is_none() {
        return;
    }
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
    let before = anonymous_bytes(&server);
    let mut highest = 0;
    for round in 0..600 {
        let lists = (0..64).map(|number| {
            let mut pets = pets.clone();
            async move {
                let (page_size, status) = (1 + (round * 7 + number) % 100, number % 4 * (round % 2));
                pets.list_pets(pb::ListPetsRequest { page_size, page_token: String::new(), status }).await
            }
        });
        for list in futures_util::future::join_all(lists).await {
            let _ = list; // the core may refuse what is beyond its capacity
        }
        highest = highest.max(anonymous_bytes(&server).saturating_sub(before));
        assert!(highest < CEILING, "{highest} bytes more after {round} rounds");
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    println!("{highest} bytes more at most");
}

/// Returns the memory of the process that is in no file.
fn anonymous_bytes(server: &Server) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1_024
}
