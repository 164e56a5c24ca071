//! The store: durability, faults of the database, and its operation on SQLite and PostgreSQL.

mod backup;
mod durability;
mod engines;
mod lost_pets;
mod operators_changes;
mod pgbouncer;
mod postgres_outages;
mod postgres_tls;
mod power_cuts;
mod promotion;
mod replicas;
mod sqlite_faults;
pub(crate) mod waiting_writes;

use std::{path::Path, time::Duration};

use tokio::process::Command;

/// Holds the write lock of a SQLite file in another process for this time.
pub(crate) async fn lock(file: &Path, time: Duration) {
    const LOCK: &str = "import sqlite3, sys, time; \
                        store = sqlite3.connect(sys.argv[1], timeout=20, isolation_level=None); \
                        store.execute('BEGIN IMMEDIATE'); time.sleep(float(sys.argv[2])); \
                        store.execute('ROLLBACK')";
    let time = time.as_secs_f64().to_string();
    let locked = Command::new("python3").arg("-c").arg(LOCK).arg(file).arg(&time).status().await;
    assert!(locked.unwrap().success(), "python3 fails");
}
