//! Replicas of the database that pets may be read from.

use std::{
    collections::VecDeque,
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::future::join_all;
use petstore_telemetry::metrics::{Collector, IntGauge, Sampled, gauge};
use sea_orm::{ConnectionTrait, DbBackend, DbErr, Statement};
use tokio::time;

use super::{OpenError, Store, connection::Connections, health::Health, pets::PetReads, postgres};
use crate::{DatabaseUrl, domain::PetStoreError};

/// Interval between checks of replicas, and timeout of one check.
const INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of checks that a replica may lag behind. With the check that detects the lag, and its
/// duration, a replica in use shows everything that is older than 10 s.
const MOST_BEHIND: usize = 7;

/// The replicas, used in turn. There are none at first.
#[derive(Clone, Default)]
pub(super) struct Replicas {
    all: Arc<Vec<Replica>>,
    turn: Arc<AtomicUsize>,
}

#[derive(Clone)]
struct Replica {
    /// URL without a password.
    url: Arc<str>,
    /// Connections for checks of the replica itself.
    connections: Connections,
    pet_reads: PetReads,
    /// `true` if it answers, follows the primary and does not lag too far.
    is_usable: Arc<AtomicBool>,
}

impl Store {
    /// Returns the store, which now also reads pets from these replicas. No connection is made yet: a replica
    /// that is unavailable is skipped.
    ///
    /// # Errors
    ///
    /// [`OpenError::NotReplicated`] unless each [may be one](DatabaseUrl::may_replicate).
    pub fn with_replicas(mut self, url: &DatabaseUrl, replicas: &[DatabaseUrl]) -> Result<Self, OpenError> {
        let mut all = Vec::with_capacity(replicas.len());
        for replica in replicas {
            let DatabaseUrl::Postgres(address) = replica else {
                return Err(OpenError::NotReplicated);
            };
            if !replica.may_replicate(url) {
                return Err(OpenError::NotReplicated);
            }
            let health = Health::default(); // damage of a replica is not damage of the store
            let connections = postgres::reader(address, &health);
            all.push(Replica {
                url: replica.to_string().into(),
                pet_reads: postgres::pet_reads(address, &connections, &health),
                connections,
                is_usable: Arc::default(),
            });
        }
        self.replicas.all = Arc::new(all);
        Ok(self)
    }

    /// Returns the answer of the next replica. Returns `None` if there is none or if it fails, for any
    /// reason. The primary should be asked then.
    pub(super) async fn read_from_replica<T, F>(&self, read: impl FnOnce(PetReads) -> F) -> Option<T>
    where
        F: Future<Output = Result<T, DbErr>>,
    {
        let replica = self.replicas.next()?;
        match time::timeout(Duration::from_millis(200), read(replica.pet_reads.clone())).await {
            Ok(Ok(result)) => Some(result),
            Ok(Err(error)) => {
                replica.fail(&error);
                None
            }
            Err(elapsed) => {
                replica.fail(&elapsed);
                None
            }
        }
    }

    /// Checks the replicas every second. Never ends.
    pub(crate) async fn watch_replicas(&self) -> Infallible {
        if self.replicas.all.is_empty() {
            return std::future::pending().await;
        }
        let mut positions = VecDeque::with_capacity(MOST_BEHIND + 1);
        let mut ticks = time::interval(INTERVAL);
        ticks.set_missed_tick_behavior(time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            // While the primary is unavailable nothing is written that a replica could lack.
            if let Ok(primary) = self.primary().await {
                positions.push_back(primary);
            }
            if positions.len() > MOST_BEHIND {
                positions.pop_front();
            }
            let Some(oldest) = positions.front() else { continue };
            join_all(self.replicas.all.iter().map(|replica| replica.check(oldest))).await;
        }
    }

    /// Returns the identifier of the primary's database cluster, which all its copies share and no other
    /// cluster, and the position up to which it has written.
    async fn primary(&self) -> Result<(i64, String), PetStoreError> {
        let question = "SELECT system_identifier, pg_current_wal_lsn()::text FROM pg_control_system()";
        let question = move || Statement::from_string(DbBackend::Postgres, question);
        let row = self.read(move |db| db.query_one_raw(question())).await?;
        let row = row.ok_or_else(|| PetStoreError::Bug("PostgreSQL does not know itself".into()))?;
        Ok((row.try_get_by_index(0)?, row.try_get_by_index(1)?))
    }
}

impl Replicas {
    /// Returns the next usable replica in turn.
    fn next(&self) -> Option<&Replica> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let (before, after) = self.all.split_at_checked(turn.checked_rem(self.all.len())?)?;
        after.iter().chain(before).find(|replica| replica.is_usable())
    }

    /// Returns the connections of every replica, to be set up before they are used.
    pub(super) fn connections_mut(&mut self) -> impl Iterator<Item = &mut Connections> {
        let all = Arc::make_mut(&mut self.all).iter_mut();
        all.flat_map(|Replica { connections, pet_reads, .. }| {
            [connections].into_iter().chain(pet_reads.connections_mut())
        })
    }

    /// Returns the metric of the number of replicas in use.
    pub(super) fn metrics(&self) -> Box<dyn Collector> {
        let all = Arc::clone(&self.all);
        let used = gauge("petstore_replicas_used", "Replicas in use, from which pets are read.");
        Sampled::boxed(used, move |used: &IntGauge| {
            let count = all.iter().filter(|replica| replica.is_usable()).count();
            used.set(i64::try_from(count).unwrap_or(i64::MAX));
        })
    }

    pub(super) async fn close(&self) {
        for replica in self.all.iter() {
            replica.pet_reads.close().await;
            replica.connections.close().await;
        }
    }
}

impl Replica {
    fn is_usable(&self) -> bool {
        self.is_usable.load(Ordering::Relaxed)
    }

    /// Checks that it follows that primary and has reached the position, and sets the result.
    async fn check(&self, (system, position): &(i64, String)) {
        let question = Statement::from_sql_and_values(
            DbBackend::Postgres,
            "SELECT pg_is_in_recovery() AND system_identifier = $1, pg_last_wal_replay_lsn() >= $2::pg_lsn \
             FROM pg_control_system()",
            [(*system).into(), position.as_str().into()],
        );
        let answer = async {
            let row = self.connections.read(|db| db.query_one_raw(question)).await?;
            let row = row.ok_or_else(|| DbErr::RecordNotFound(String::new()))?;
            let is_current: Option<bool> = row.try_get_by_index(1)?;
            Ok::<_, DbErr>((row.try_get_by_index(0)?, is_current == Some(true)))
        };
        match time::timeout(INTERVAL, answer).await {
            Ok(Ok((true, true))) => self.set_usable(true, ""),
            Ok(Ok((true, false))) => self.set_usable(false, "it is more than 10 seconds behind"),
            Ok(Ok((false, _))) => self.set_usable(false, "it does not follow the store's server"),
            Ok(Err(error)) => self.fail(&error),
            Err(elapsed) => self.fail(&elapsed),
        }
    }

    /// Records that it did not answer.
    fn fail(&self, cause: &(dyn std::error::Error + 'static)) {
        self.connections.mark_stale();
        self.set_usable(false, &cause.to_string());
    }

    /// Sets whether it is usable. Logs one line for each change, not one for each call.
    fn set_usable(&self, is_usable: bool, why: &str) {
        if self.is_usable.swap(is_usable, Ordering::Relaxed) != is_usable {
            let replica = self.url.as_ref();
            if is_usable {
                tracing::info!(replica, "reading from the replica");
            } else {
                tracing::warn!(replica, "not reading from the replica: {why}");
            }
        }
    }
}

#[cfg(test)]
mod tests;
