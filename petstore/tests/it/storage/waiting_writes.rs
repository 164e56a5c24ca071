//! Writes that wait for a lock of the database do not delay reads.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use petstore_testkit::{
    Client, Engine, Installation, eventually,
    servers::{Database, PostgresServer},
};
use serde_json::json;
use tokio::{process::Command, task::JoinSet, time::sleep};

use crate::{key_of_new_account, key_without_limits, pets::created, petstore, serve, split::Split};

/// Number of writes of one account, which wait or are refused because others wait: more than a gateway has
/// permits for calls of one kind. Each is made again when it ends. There are few enough that a busy
/// machine has time for reads.
const WRITES: usize = 200;
/// Number of reads of another account that are answered meanwhile; the plan of the account allows 60 a
/// minute.
const READS: usize = 40;
/// Timeout longer than all the writes take to arrive, on a busy machine.
const ALL_WAITING_TIMEOUT: Duration = Duration::from_mins(1);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_are_answered_while_two_hundred_writes_wait() {
    for engine in Engine::ALL {
        let (installation, lock) = lockable(engine).await;
        let server = installation.start(&serve(&[])).await;
        let key = key_of_new_account(&installation).await;
        assert_reads_are_answered_while_writes_wait(&installation, lock, &server.client(&key)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_separate_gateway_answers_reads_while_two_hundred_writes_wait() {
    for engine in Engine::ALL {
        let (installation, lock) = lockable(engine).await;
        let split = Split::of(installation).await;
        assert_reads_are_answered_while_writes_wait(
            &split.installation,
            lock,
            &split.gateway.client(&split.key),
        )
        .await;
    }
}

/// Checks that reads are answered between two times at which the same writes wait. A read needs no permit
/// that only the end of a write frees.
async fn assert_reads_are_answered_while_writes_wait(
    installation: &Installation,
    lock: Lock,
    reader: &Client,
) {
    let id = created(&reader.post("/v1/pets", &json!({"name": "Rex", "categoryId": 1})).await);
    let path = format!("/v1/pets/{id}");
    let writer = reader.with_key(&key_without_limits(installation).await);
    writer.get(&path).await.assert_status(200);
    let quiet = Instant::now();
    reader.get(&path).await.assert_status(200);
    let quiet = quiet.elapsed();

    let mut background = JoinSet::new();
    background.spawn(async move { lock.hold().await });
    let tom = json!({"name": "Tom", "categoryId": 2});
    eventually(ALL_WAITING_TIMEOUT, async || match writer.post("/v1/pets", &tom).await {
        added if added.status() == 201 => Err("the pets are not locked".to_owned()),
        _ => Ok(()),
    })
    .await;
    let ended = Arc::new(AtomicUsize::new(0));
    for _ in 0..WRITES {
        let (writer, tom, ended) = (writer.clone(), tom.clone(), Arc::clone(&ended));
        background.spawn(async move {
            loop {
                let answer = writer.post("/v1/pets", &tom).await;
                assert!([503, 504].contains(&answer.status()), "the pets are locked: {answer:?}");
                if answer.json()["code"] == "OVERLOADED" {
                    sleep(Duration::from_secs(1)).await; // `Retry-After`: too many others wait
                } else {
                    ended.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
    }
    eventually(ALL_WAITING_TIMEOUT, async || match ended.load(Ordering::Relaxed) {
        0 => Err("no write has waited for as long as it may".to_owned()),
        _ => Ok(()),
    })
    .await;
    let mut took = Vec::new();
    for _ in 0..READS {
        let (before, begun) = (ended.load(Ordering::Relaxed), Instant::now());
        let answer = reader.get(&path).await;
        answer.assert_status(200);
        if ended.load(Ordering::Relaxed) == before {
            took.push(begun.elapsed());
        }
    }
    took.sort_unstable();
    println!("quiet {quiet:?}, then {} of {READS} between the ends of two writes: {took:?}", took.len());
    assert!(took.len() > READS / 4, "reads waited for the end of writes: {took:?}");
}

/// Lock of a store for writing.
pub(crate) enum Lock {
    /// Lock of the file.
    Sqlite(PathBuf),
    Postgres(Database),
}

/// Returns the binary in an empty folder, and the lock of its store.
pub(crate) async fn lockable(engine: Engine) -> (Installation, Lock) {
    match engine {
        Engine::Sqlite => {
            let installation = petstore();
            let file = installation.folder().join("data/petstore.db");
            (installation, Lock::Sqlite(file))
        }
        Engine::Postgres => {
            let database = PostgresServer::shared().await.database().await;
            (petstore().with_variable("PETSTORE_DATABASE_URL", &database.url()), Lock::Postgres(database))
        }
    }
}

impl Lock {
    /// Holds the lock until the future is dropped.
    pub(crate) async fn hold(&self) {
        const LOCK: &str = "import sqlite3, sys, time; \
                            store = sqlite3.connect(sys.argv[1], timeout=20, isolation_level=None); \
                            store.execute('BEGIN IMMEDIATE'); time.sleep(600)";
        match self {
            Self::Sqlite(file) => {
                let mut python = Command::new("python3");
                let ended = python.arg("-c").arg(LOCK).arg(file).kill_on_drop(true).status().await;
                panic!("the lock is lost: {ended:?}");
            }
            Self::Postgres(database) => {
                let lock = "BEGIN; LOCK TABLE pets IN SHARE MODE; SELECT pg_sleep(600)";
                panic!("the lock is lost: {}", database.psql(lock).await);
            }
        }
    }
}
