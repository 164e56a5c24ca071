//! Black-box tests of the service: every test is a sentence that a client or an operator may rely on.
//!
//! Behaviour for clients is tested on a [`petstore_testkit::TestShop`], in this process, so that its clock
//! can be moved. Behaviour for operators is tested on the binary.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that cannot go on fails by panicking"
)]

mod address_limit;
mod admin_api;
mod authentication;
mod bans;
mod batch;
mod cli;
mod connections;
mod console;
mod cors;
mod create_pet;
mod deprecation;
mod durability;
mod early_calls;
mod engines;
mod export;
mod get_pet;
mod grpc;
mod grpc_bounds;
mod headers;
mod hostile_http2;
mod https;
mod hung_core;
mod idempotency;
mod import;
mod import_pets;
mod key_floods;
mod lasting_bans;
mod limits;
mod list_pets;
mod logs;
mod lost_pets;
mod memory;
mod metrics;
mod openapi;
mod operators;
mod orders;
mod outages;
mod parity;
mod pets;
mod postgres_tls;
mod redis_costs;
mod redis_exactness;
mod redis_failover;
mod redis_installations;
mod redis_operation;
mod redis_outages;
mod redis_tls;
mod refusals;
mod replicas;
mod requests;
mod routing;
mod runbook;
mod secrets;
mod secure_grpc;
mod secure_split;
mod serve;
mod split;
mod storage;
mod traces;
mod usage;
mod waiting_writes;

use petstore_testkit::{Client, Engine, Installation, Server, servers::PostgresServer};

/// File with the key of a fresh store.
const FIRST_KEY: &str = "data/first-api-key";

/// Flags that select free ports for `serve`.
const PORTS: [&str; 6] =
    ["--http-addr", "127.0.0.1:0", "--grpc-addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0"];

/// Account of [`key_of_new_account`].
const ACCOUNT: &str = "acme";

/// Returns the binary in an empty folder.
fn petstore() -> Installation {
    Installation::of(env!("CARGO_BIN_EXE_petstore"))
}

/// Returns the binary in an empty folder, with an empty store on this engine.
async fn petstore_on(engine: Engine) -> Installation {
    match engine {
        Engine::Sqlite => petstore(),
        Engine::Postgres => {
            let database = PostgresServer::shared().await.database().await;
            petstore().with_variable("PETSTORE_DATABASE_URL", &database.url())
        }
    }
}

/// Returns a REST client with the key of the fresh store.
fn first_client(installation: &Installation, server: &Server) -> Client {
    server.client(installation.read(FIRST_KEY).trim())
}

/// Returns a key of a new account on the plan Free, as the operator's command prints it.
async fn key_of_new_account(installation: &Installation) -> String {
    let account = installation.run(&["account", "create", ACCOUNT, "--plan", "free"]).await;
    assert_eq!(account.code, Some(0), "{account:?}");
    let key = installation.run(&["key", "create", "--account", ACCOUNT, "--output", "json"]).await;
    assert_eq!(key.code, Some(0), "{}", key.stderr);
    let key: serde_json::Value = serde_json::from_str(&key.stdout).unwrap();
    key["apiKey"].as_str().expect("the key").to_owned()
}

/// Returns a key of an account without effective limits.
async fn key_without_limits(installation: &Installation) -> String {
    let limits = ["--plan", "enterprise", "--per-minute", "1000000", "--per-day", "1000000"];
    let account = installation.run(&[["account", "create", "load"].as_slice(), &limits].concat()).await;
    assert_eq!(account.code, Some(0), "{account:?}");
    let key = installation.run(&["key", "create", "--account", "load", "--output", "json"]).await;
    let key: serde_json::Value = serde_json::from_str(&key.stdout).unwrap();
    key["apiKey"].as_str().expect("the key").to_owned()
}

/// Returns the identifier of the account's only key.
async fn only_key_id(installation: &Installation, account: &str) -> String {
    let keys = installation.run(&["key", "list", "--account", account, "--output", "json"]).await;
    let keys: serde_json::Value = serde_json::from_str(&keys.stdout).unwrap();
    let keys = &keys["keys"];
    assert_eq!(keys.as_array().map(Vec::len), Some(1), "{keys}");
    keys[0]["id"].as_str().expect("an id").to_owned()
}
