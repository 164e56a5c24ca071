//! Costs of the binaries, counted by programs that run them: system calls by strace, instructions by
//! callgrind.

use std::{
    collections::BTreeMap,
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::Path,
    time::{Duration, Instant},
};

use petstore_testkit::{
    Installation, Server, eventually,
    servers::{PostgresOptions, PostgresServer, RedisOptions, RedisServer},
};
use tokio::{process::Command, time::sleep};

use crate::{
    recorded::{self, Costs},
    requests::{Connection, Operation, PETS},
};

/// Program that runs the binary and counts.
#[derive(Clone, Copy)]
pub(crate) enum Counter {
    /// Counts system calls.
    Strace,
    /// Counts instructions.
    Callgrind,
}

/// System calls that the log writer makes every few milliseconds, independently of requests.
const BY_THE_CLOCK: [&str; 1] = ["clock_nanosleep"];

const NEW_CORE: [&str; 4] = ["--grpc-addr", "127.0.0.1:0", "--pet-cache", "0"];
const NEW_GATEWAY: [&str; 2] = ["--http-addr", "127.0.0.1:0"];
const ADMIN: [&str; 2] = ["--admin-addr", "127.0.0.1:0"];

/// Returns the costs of one process on SQLite.
pub(crate) async fn one_process(by: Counter) -> Costs {
    let installation = Installation::of(env!("CARGO_BIN_EXE_petstore"));
    let database = format!("sqlite://{}/petstore.db", installation.folder().display());
    let (counted, _program, key) = by.of(installation, &database).await;
    let service = counted.start(&[&["serve"], &NEW_CORE[..], &NEW_GATEWAY, &ADMIN].concat()).await;
    service.ready().await;
    by.costs(&counted, &key, &[("serve", &service)]).await
}

/// Returns the costs of gateway and core on PostgreSQL and Redis.
pub(crate) async fn gateway_and_core(by: Counter) -> Costs {
    let (postgres, redis) = tokio::join!(
        PostgresServer::start(PostgresOptions::default()),
        RedisServer::start(RedisOptions::default())
    );
    let installation = Installation::of(env!("CARGO_BIN_EXE_petstore"));
    let (counted, _program, key) = by.of(installation, &postgres.url()).await;
    let core = counted.start(&[&["core"], &NEW_CORE[..], &ADMIN].concat()).await;
    let (core_url, redis_url) = (format!("http://{}", core.address("gRPC")), redis.url());
    let to = ["--core-url", &core_url, "--redis-url", &redis_url];
    let gateway = counted.start(&[&["gateway"], &to[..], &NEW_GATEWAY, &ADMIN].concat()).await;
    gateway.ready().await;
    by.costs(&counted, &key, &[("gateway", &gateway), ("core", &core)]).await
}

impl Counter {
    /// Number of parts, of which the least counts, and of requests in a part. Each system call takes strace
    /// some time, and callgrind is fifty times slower than a processor.
    const fn load(self) -> (usize, usize) {
        match self {
            Self::Strace => (40, 5),
            // Enough requests that a task which runs once a second is little beside them.
            Self::Callgrind => (3, 150),
        }
    }

    /// Makes the schema and a key. Returns also an installation for the same database whose program, a
    /// script in the folder of the other, runs the binary on one processor, since the number of processors
    /// decides how many threads wake each other. It writes what it counts into files of the folder, by the
    /// name of the command. The process is the binary, which ends by its signals.
    async fn of(self, plain: Installation, database: &str) -> (Installation, Installation, String) {
        let plain = plain.with_variable("PETSTORE_DATABASE_URL", database);
        let migrated = plain.run(&["migrate", "up"]).await;
        assert_eq!(migrated.code, Some(0), "{migrated:?}");
        let limits = ["--plan", "enterprise", "--per-minute", "1000000000", "--per-day", "1000000000"];
        let account = plain.run(&[["account", "create", "costs"].as_slice(), &limits].concat()).await;
        assert_eq!(account.code, Some(0), "{account:?}");
        let key = plain.json(&["key", "create", "--account", "costs"]).await;

        let status = fs::read_to_string("/proc/self/status").expect("Linux tells");
        let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        let first: String =
            allowed.expect("a list").trim().chars().take_while(char::is_ascii_digit).collect();
        let counts = match self {
            Self::Strace => r#"strace -D -f -qq -e signal=none -o "$1.calls""#,
            Self::Callgrind => r#"valgrind -q --tool=callgrind --callgrind-out-file="$1.instructions""#,
        };
        let binary = env!("CARGO_BIN_EXE_petstore");
        let script = plain.folder().join("counted");
        fs::write(&script, format!("#!/bin/sh\nexec taskset -c {first} {counts} '{binary}' \"$@\"\n"))
            .expect("a script");
        fs::set_permissions(&script, Permissions::from_mode(0o700)).expect("its mode");
        let counted = plain.running(&script);
        (counted, plain, key["apiKey"].as_str().expect("the key").to_owned())
    }

    /// Returns the costs of each operation in the running processes, given with the names of their commands.
    async fn costs(self, counted: &Installation, key: &str, processes: &[(&str, &Server)]) -> Costs {
        let mut costs = Costs::default();
        let (_, entrance) = processes.first().expect("a process");
        let rest = entrance.address("REST");
        let mut connection = Connection::open(rest).await;
        let create = Operation::Create.requests(rest, key);
        for request in create.iter().cycle().take(PETS) {
            connection.exchange(request).await;
        }
        let (number_of_parts, size) = self.load();
        for operation in Operation::ALL {
            let requests = operation.requests(rest, key);
            for request in requests.iter().cycle().take(20) {
                connection.exchange(request).await;
            }
            let mut parts = Vec::new();
            for _ in 0..number_of_parts {
                let (before, begin) = (self.counts(counted, processes).await, Instant::now());
                for request in requests.iter().cycle().take(size) {
                    connection.exchange(request).await;
                }
                let took = begin.elapsed();
                let after = self.counts(counted, processes).await;
                let mut by_the_clock = BTreeMap::new();
                if matches!(self, Self::Callgrind) {
                    // What the processes do by the clock depends on how long the requests take.
                    sleep(took).await;
                    let rested = self.counts(counted, processes).await;
                    by_the_clock = rested
                        .into_iter()
                        .map(|(what, count)| (what.clone(), count - after[&what]))
                        .collect();
                }
                let of_request = after.iter().map(|(what, count)| {
                    let idle = by_the_clock.get(what).copied().unwrap_or_default();
                    (what.clone(), recorded::ratio((count - before[what]).saturating_sub(idle), size))
                });
                parts.push(of_request.collect());
            }
            costs.insert(operation.name().to_owned(), recorded::least(parts));
        }
        costs
    }

    /// Returns what each process has done since its start.
    async fn counts(self, counted: &Installation, processes: &[(&str, &Server)]) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for (process, server) in processes {
            let (what, count) = match self {
                Self::Strace => ("system calls", calls(&counted.read(&format!("{process}.calls")))),
                Self::Callgrind => {
                    ("instructions", instructions(counted.folder(), process, server.pid()).await)
                }
            };
            counts.insert(format!("{what} of {process}"), count);
        }
        counts
    }
}

/// Returns the number of system calls in the output of strace. A line is `4711 sendto(9, …`; the second half
/// of a call that was interrupted is `4711 <... sendto resumed>`.
fn calls(lines: &str) -> usize {
    let called = lines.lines().filter_map(|line| {
        let (name, _) = line.split_once(' ')?.1.trim_start().split_once('(')?;
        (!name.contains(' ') && !BY_THE_CLOCK.contains(&name)).then_some(name)
    });
    called.count()
}

/// Lets callgrind write what it has counted since it did so last. Returns the sum of all that it has written.
async fn instructions(folder: &Path, process: &str, pid: u32) -> usize {
    let file = |part: usize| folder.join(format!("{process}.instructions.{part}"));
    let last = (1..10_000).find(|part| !file(*part).exists()).expect("a number");
    let asked = Command::new("callgrind_control").args(["--dump", &pid.to_string()]).output().await;
    let asked = asked.expect("callgrind_control runs: install the Debian package valgrind");
    assert!(asked.status.success(), "{}", String::from_utf8_lossy(&asked.stderr));
    let total = |part| {
        let text = fs::read_to_string(file(part)).unwrap_or_default();
        let total = text.lines().find_map(|line| line.strip_prefix("totals: "))?;
        Some(total.trim().parse::<usize>().expect("a number"))
    };
    let written = async || total(last).ok_or_else(|| "callgrind has not written it yet".to_owned());
    eventually(Duration::from_secs(30), written).await;
    (1..=last).filter_map(total).sum()
}
