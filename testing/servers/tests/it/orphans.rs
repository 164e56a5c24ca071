//! A test process that is killed leaves no servers and files behind.

use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use petstore_test_servers::{
    eventually,
    servers::{PostgresOptions, PostgresServer, RedisOptions, RedisServer},
};

/// Variable that marks the process that will be killed.
const VICTIM: &str = "TESTKIT_VICTIM";

#[tokio::test]
async fn no_server_outlives_a_test_process_that_is_killed() {
    if std::env::var_os(VICTIM).is_some() {
        return be_the_victim().await;
    }
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "orphans::no_server_outlives_a_test_process_that_is_killed", "--nocapture"])
        .env(VICTIM, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(victim.stdout.take().unwrap()).lines().map(Result::unwrap);
    // "SERVER PID FOLDER" three times; the test runner's own lines come before, or stand in front of some.
    let servers: Vec<_> = lines.filter_map(|line| server_of(&line)).take(3).collect();
    assert_eq!(servers.len(), 3);
    assert!(servers.iter().all(|(process, folder)| process.exists() && folder.exists()));

    victim.kill().unwrap();
    victim.wait().unwrap();
    for path in servers.iter().flat_map(|(process, folder)| [process, folder]) {
        // Less than the time that the servers have to end in good order.
        eventually(Duration::from_secs(8), async || {
            if is_alive(path) { Err(format!("{} is there", path.display())) } else { Ok(()) }
        })
        .await;
    }
}

async fn be_the_victim() {
    let mut redis = RedisServer::start(RedisOptions::default()).await;
    let mut paused = RedisServer::start(RedisOptions::default()).await;
    let mut postgres = PostgresServer::start(PostgresOptions::default()).await;
    for pid in [redis.pid(), paused.pid(), postgres.pid()] {
        let folder = std::fs::read_link(format!("/proc/{pid}/cwd")).unwrap();
        let folder = folder.ancestors().find(|folder| !folder.ends_with("data")).unwrap();
        println!("\nSERVER {pid} {}", folder.display());
    }
    paused.pause();
    postgres.pause();
    std::future::pending::<()>().await;
}

fn server_of(line: &str) -> Option<(PathBuf, PathBuf)> {
    let (pid, folder) = line.strip_prefix("SERVER ")?.split_once(' ')?;
    Some((Path::new("/proc").join(pid), folder.into()))
}

/// Returns `true` for a folder that exists, or a process that has not ended. A dead process may stay listed
/// until its parent waits for it.
fn is_alive(path: &Path) -> bool {
    let stat = std::fs::read_to_string(path.join("stat")).unwrap_or_default();
    path.exists() && !stat.contains(") Z ")
}
