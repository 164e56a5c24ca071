//! Background work of the core: it deletes expired idempotency keys, and counts by minute and refusals that
//! are older than a day. It also checks the replicas and the store's file.

use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::time;

use crate::{Core, errors::PetStoreError};

const INTERVAL: Duration = Duration::from_secs(10);
/// Rows of one statement, so that none holds its locks for long.
const BATCH: u64 = 1_000;
/// Maximum number of statements in one round. Creations would have to arrive at 5,000 a second for a day to
/// outrun this.
const BATCHES: usize = 50;

impl Core {
    /// Runs until `shutdown`. Any number of cores may do so concurrently.
    pub fn run_background(self, shutdown: BoxFuture<'static, ()>) -> BoxFuture<'static, ()> {
        // In a box, so that it is compiled with this crate.
        Box::pin(async move {
            let sweeping = async {
                let mut ticks = time::interval(INTERVAL);
                ticks.set_missed_tick_behavior(time::MissedTickBehavior::Delay);
                loop {
                    ticks.tick().await;
                    self.sweep().await;
                }
            };
            tokio::select! {
                () = sweeping => {}
                never = self.store.database().watch() => match never {},
                () = shutdown => {}
            }
        })
    }

    async fn sweep(&self) {
        let (store, now) = (&self.store, self.clock.now());
        sweep("old request ids", BATCH, || store.pets.forget_expired_requests(now, BATCH)).await;
        sweep("old refusals", 1, || store.accounts.forget_old_refusals(now, BATCH)).await;
        sweep("old counts of usage", 1, || store.accounts.forget_old_minutes(now)).await;
    }
}

/// Deletes rows in batches, until one has fewer than `full` or the round is over.
async fn sweep<F>(what: &str, full: u64, delete: impl Fn() -> F)
where
    F: Future<Output = Result<u64, PetStoreError>>,
{
    for _ in 0..BATCHES {
        match delete().await {
            Ok(deleted) if deleted >= full => tokio::task::yield_now().await, // others first
            Ok(_) => return,
            Err(error) => {
                let cause = std::error::Error::source(&error);
                tracing::debug!(error = cause, "{what} could not be removed: {error}");
                return; // the next round tries again
            }
        }
    }
}
