//! Black-box tests of the service: every test is a sentence that a client or an operator may rely on.
//!
//! A test goes to the folder of the operation or the promise that it is about. The file beside each folder
//! lists its chapters, and has the helpers that they share.
//!
//! Behaviour for clients is tested on a [`petstore_testkit::TestShop`], in this process, so that its clock
//! can be moved. Behaviour for operators is tested on the binary.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that cannot go on fails by panicking"
)]

mod admin;
mod bans;
mod chaos;
mod grpc;
mod http;
mod keys;
mod limits;
mod orders;
mod output_files;
mod pets;
mod process;
mod redis;
mod split;
mod storage;
mod upgrades;

use petstore_testkit::{Client, Engine, Installation, Server, servers::PostgresServer};

/// File with the key of a fresh store.
const FIRST_KEY: &str = "data/first-api-key";

/// Flags that select free ports for `serve`.
const PORTS: [&str; 6] =
    ["--http-addr", "127.0.0.1:0", "--grpc-addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0"];

/// Account of [`key_of_new_account`].
const ACCOUNT: &str = "acme";

/// Returns `true` if tests run in their long form (`PETSTORE_TEST_LONG=1`).
fn is_long() -> bool {
    std::env::var_os("PETSTORE_TEST_LONG").is_some()
}

/// Returns the number of rounds, in the short or in the long form.
fn rounds(short: usize, long: usize) -> usize {
    if is_long() { long } else { short }
}

/// Returns the arguments that run `serve` on free ports.
fn serve<'a>(flags: &[&'a str]) -> Vec<&'a str> {
    [["serve"].as_slice(), &PORTS, flags].concat()
}

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
    key_of(installation, ACCOUNT, &["--plan", "free"]).await
}

/// Returns a key of an account without effective limits.
async fn key_without_limits(installation: &Installation) -> String {
    let limits = ["--plan", "enterprise", "--per-minute", "1000000", "--per-day", "1000000"];
    key_of(installation, "load", &limits).await
}

/// Returns a key of a new account with these flags.
async fn key_of(installation: &Installation, account: &str, flags: &[&str]) -> String {
    let created = installation.run(&[["account", "create", account].as_slice(), flags].concat()).await;
    assert_eq!(created.code, Some(0), "{created:?}");
    installation.json(&["key", "create", "--account", account]).await["apiKey"]
        .as_str()
        .expect("the key")
        .to_owned()
}

/// Returns the memory of the process in bytes, by its name in `/proc/PID/status`: `VmRSS`, or `RssAnon` for
/// that which is in no file.
fn memory(server: &Server, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let kibibytes = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap();
    kibibytes.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// Returns the value of a metric without labels.
async fn metric(server: &Server, name: &str) -> u64 {
    let metrics = server.admin().get("/metrics").await;
    let value = metrics.text().lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.unwrap_or_else(|| panic!("{name} is not in {}", metrics.text())).parse().unwrap()
}

/// Returns the number of calls of this method that the core has answered.
async fn calls_answered(admin: &Client, method: &str) -> u64 {
    let series = format!("rpc_server_call_duration_seconds_count{{rpc_method=\"{method}\",");
    let metrics = admin.get("/metrics").await;
    let counts = metrics.text().lines().filter(|line| line.starts_with(&series));
    counts.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
}

/// Returns the identifier of the account's only key.
async fn only_key_id(installation: &Installation, account: &str) -> String {
    let listed = installation.json(&["key", "list", "--account", account]).await;
    let keys = &listed["keys"];
    assert_eq!(keys.as_array().map(Vec::len), Some(1), "{keys}");
    keys[0]["id"].as_str().expect("an id").to_owned()
}
