//! Faults of the file that is a SQLite store: it is locked, it cannot grow, the core is killed.

use std::{sync::Arc, time::Duration};

use petstore_testkit::{Installation, Server, eventually};
use tokio::process::Command;

use super::{callers::Callers, cores::TwoCores};
use crate::{is_long, petstore, storage::lock};

/// Shell command that starts the core.
const UNSIGNALLED: [&str; 4] = ["-c", "exec \"$@\"", "sh", env!("CARGO_BIN_EXE_petstore")];
/// Time longer than the core waits for the lock (2 s).
const LOCK_INTERVAL: Duration = Duration::from_millis(2_500);
/// Time longer than a call may take altogether (4 s).
const LONG_LOCK_INTERVAL: Duration = Duration::from_millis(4_500);

#[tokio::test]
async fn a_locked_or_full_file_and_kills_lose_and_duplicate_nothing() {
    let is_long = is_long();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("petstore.db");
    let url = format!("sqlite://{}", file.display());
    let shell = Installation::of("sh").with_variable("PETSTORE_DATABASE_URL", &url);
    let operator = Arc::new(petstore().with_variable("PETSTORE_DATABASE_URL", &url));
    let mut cores = TwoCores::start(&shell, &UNSIGNALLED, &operator).await;
    let counted = super::cores::account_id(&operator, "counted").await;
    let callers = Callers::start(&cores, is_long.then(|| Arc::clone(&operator)), counted).await;
    goes_on(&callers).await;

    let (rounds, fills) = if is_long { (40_u32, 5) } else { (1, 2) };
    for round in 0..rounds {
        for fill in 0..fills {
            // Another part of a transaction finds room each time.
            let room = 32_768 + 4_096 * ((round * fills + fill) % 16);
            let before = refused(&callers);
            allow_files_of(&cores.first, &room.to_string()).await;
            eventually(Duration::from_mins(1), async || match refused(&callers) {
                now if now > before => Ok(()),
                _ => Err(format!("nothing is refused with {room} bytes")),
            })
            .await;
            allow_files_of(&cores.first, "unlimited").await;
            goes_on(&callers).await;
        }
        cores = cores.restart_first(&shell, &UNSIGNALLED).await;
        goes_on(&callers).await;
        if round % 10 == 0 {
            lock(&file, if round == 10 { LONG_LOCK_INTERVAL } else { LOCK_INTERVAL }).await;
            goes_on(&callers).await;
        }
    }
    let faults = rounds * (fills + 1) + rounds.div_ceil(10);
    let answers = callers.stop().await;
    println!("{faults} faults on SQLite; {}", answers.counts());
    cores.gateway.crash().await;
    cores.first.crash().await;
    answers.assert_kept(&cores.second, counted).await;
    answers.assert_accounts_kept(&operator).await;
}

/// Limits the size of the file: writes beyond this number of bytes fail as if it were full.
async fn allow_files_of(core: &Server, bytes: &str) {
    let fsize = format!("--fsize={bytes}:");
    let changed = Command::new("prlimit").args(["--pid", &core.pid().to_string(), &fsize]).status().await;
    assert!(changed.unwrap().success(), "prlimit fails");
}

/// Returns the number of calls that were refused.
fn refused(callers: &Callers) -> u64 {
    callers.calls().values().map(|(_, refused)| refused).sum()
}

/// Waits until more is acknowledged.
async fn goes_on(callers: &Callers) {
    let before = callers.acknowledged();
    eventually(Duration::from_mins(1), async || {
        if callers.acknowledged() > before + 20 { Ok(()) } else { Err("nothing is added".to_owned()) }
    })
    .await;
}
