//! System calls of the binaries, counted by strace.

use std::{
    collections::BTreeMap,
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use petstore_testkit::{
    Installation,
    servers::{PostgresOptions, PostgresServer, RedisOptions, RedisServer},
};

use crate::{
    PARTS,
    recorded::{self, Costs},
    requests::{Connection, Operation, PETS},
};

/// Number of requests in a part. It is small because each call takes strace some time.
const REQUESTS: usize = 5;

/// System calls that the log writer makes every few milliseconds, independently of requests.
const BY_THE_CLOCK: [&str; 1] = ["clock_nanosleep"];

/// Returns the costs of gateway and core, each on one processor. The number of processors decides how many
/// threads wake each other.
pub(crate) async fn counted() -> Costs {
    let (postgres, redis) = tokio::join!(
        PostgresServer::start(PostgresOptions::default()),
        RedisServer::start(RedisOptions::default())
    );
    let installation = Installation::of(env!("CARGO_BIN_EXE_petstore"));
    let installation = installation.with_variable("PETSTORE_DATABASE_URL", &postgres.url());
    let traced = Installation::of(script(installation.folder()).to_str().expect("a path of ASCII"));
    let traced = traced.with_variable("PETSTORE_DATABASE_URL", &postgres.url());
    let migrated = installation.run(&["migrate", "up"]).await;
    assert_eq!(migrated.code, Some(0), "{migrated:?}");
    let key = key(&installation).await;

    let admin = ["--admin-addr", "127.0.0.1:0"];
    let core = traced
        .start(&[["core", "--grpc-addr", "127.0.0.1:0", "--pet-cache", "0"].as_slice(), &admin].concat())
        .await;
    let core_url = format!("http://{}", core.address("gRPC"));
    let redis_url = redis.url();
    let flags = ["gateway", "--http-addr", "127.0.0.1:0", "--core-url", &core_url, "--redis-url", &redis_url];
    let gateway = traced.start(&[flags.as_slice(), &admin].concat()).await;
    gateway.ready().await;

    let mut costs = Costs::default();
    let rest = gateway.address("REST");
    let mut connection = Connection::open(rest).await;
    let create = Operation::Create.requests(rest, &key);
    for request in create.iter().cycle().take(PETS) {
        connection.exchange(request).await;
    }
    for operation in Operation::ALL {
        let requests = operation.requests(rest, &key);
        for request in requests.iter().take(20) {
            connection.exchange(request).await;
        }
        let mut parts = Vec::new();
        for _ in 0..PARTS {
            let before = Calls::of(traced.folder());
            for request in requests.iter().cycle().take(REQUESTS) {
                connection.exchange(request).await;
            }
            parts.push(Calls::of(traced.folder()).per_request_since(&before));
        }
        costs.insert(operation.name().to_owned(), recorded::least(parts));
    }
    costs
}

async fn key(installation: &Installation) -> String {
    let limits = ["--plan", "enterprise", "--per-minute", "1000000000", "--per-day", "1000000000"];
    let account = installation.run(&[["account", "create", "costs"].as_slice(), &limits].concat()).await;
    assert_eq!(account.code, Some(0), "{account:?}");
    let key = installation.run(&["key", "create", "--account", "costs", "--output", "json"]).await;
    let key: serde_json::Value = serde_json::from_str(&key.stdout).unwrap();
    key["apiKey"].as_str().expect("the key").to_owned()
}

/// Writes a script that runs the binary with the arguments on one processor under strace. strace writes into
/// a file of the working folder, by the name of the command. With `-D` the process is the binary, which ends
/// by its signals.
fn script(folder: &Path) -> PathBuf {
    let status = fs::read_to_string("/proc/self/status").expect("Linux tells");
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).expect("a list");
    let first: String = allowed.trim().chars().take_while(char::is_ascii_digit).collect();
    let binary = env!("CARGO_BIN_EXE_petstore");
    let text = format!(
        "#!/bin/sh\n\
         exec taskset -c {first} strace -D -f -qq -e signal=none -o \"$1.calls\" '{binary}' \"$@\"\n"
    );
    let path = folder.join("traced");
    fs::write(&path, text).expect("a script");
    fs::set_permissions(&path, Permissions::from_mode(0o700)).expect("its mode");
    path
}

/// Number of calls of each process, by name.
struct Calls([(&'static str, BTreeMap<String, usize>); 2]);

impl Calls {
    fn of(folder: &Path) -> Self {
        Self(["gateway", "core"].map(|process| {
            let lines = fs::read_to_string(folder.join(format!("{process}.calls")));
            let lines = lines.expect("strace writes it: install the Debian package strace");
            let mut calls = BTreeMap::new();
            for line in lines.lines() {
                // `4711 sendto(9, …`; the second half of a call that was interrupted is `4711 <... sendto
                // resumed>`.
                let call = line.split_once(' ').and_then(|(_, call)| call.trim_start().split_once('('));
                let call = call
                    .map(|(name, _)| name)
                    .filter(|name| !name.contains(' ') && !BY_THE_CLOCK.contains(name));
                if let Some(name) = call {
                    *calls.entry(name.to_owned()).or_default() += 1;
                }
            }
            (process, calls)
        }))
    }

    fn per_request_since(&self, before: &Self) -> BTreeMap<String, f64> {
        let mut counts = BTreeMap::new();
        for ((process, calls), (_, before)) in self.0.iter().zip(&before.0) {
            let since = |name: &String, count: &usize| count - before.get(name).copied().unwrap_or_default();
            let all = calls.iter().map(|(name, count)| since(name, count)).sum();
            counts.insert(format!("system calls of the {process}"), recorded::ratio(all, REQUESTS));
        }
        counts
    }
}
