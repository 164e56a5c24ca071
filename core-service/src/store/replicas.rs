//! Copies of the database that pets may be read from.

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

use super::{OpenError, Store, connection::Connections, pets::PetReads, postgres};
use crate::{DatabaseUrl, domain::PetStoreError, store::database_url::DatabaseLocation};

/// How long a replica may take before the primary is asked instead.
const DEADLINE: Duration = Duration::from_millis(200);
/// How often replicas are checked, and how long one check may take.
const INTERVAL: Duration = Duration::from_secs(1);
/// How many checks a replica may lag behind. With the check that finds it, and the time that takes, a replica
/// in use shows everything that is older than 10 s.
const MOST_BEHIND: usize = 7;

/// The replicas, taken in turn. None at first.
#[derive(Clone, Default)]
pub(super) struct Replicas {
    all: Arc<Vec<Replica>>,
    turn: Arc<AtomicUsize>,
}

#[derive(Clone)]
struct Replica {
    /// Without a password.
    url: Arc<str>,
    /// For what is asked of the replica itself.
    connections: Connections,
    pet_reads: PetReads,
    /// It answers, follows the primary and is not too far behind.
    is_usable: Arc<AtomicBool>,
}

/// What the primary says of itself.
struct Primary {
    /// Which database cluster this is: the same for all copies, and for no other.
    system: i64,
    /// How far it has written.
    position: String,
}

impl Store {
    /// The same store, which reads pets from these replicas too. Nothing is connected yet: a replica that is
    /// away is passed over.
    ///
    /// # Errors
    ///
    /// [`OpenError::NotReplicated`] unless each [may be one](DatabaseUrl::may_replicate).
    pub fn with_replicas(mut self, url: &DatabaseUrl, replicas: &[DatabaseUrl]) -> Result<Self, OpenError> {
        let mut all = Vec::with_capacity(replicas.len());
        for replica in replicas {
            let DatabaseLocation::Postgres(address) = replica.location() else {
                return Err(OpenError::NotReplicated);
            };
            if !replica.may_replicate(url) {
                return Err(OpenError::NotReplicated);
            }
            let connections = postgres::reader(address, &self.health);
            all.push(Replica {
                url: replica.to_string().into(),
                pet_reads: postgres::pet_reads(address, &connections, &self.health),
                connections,
                is_usable: Arc::default(),
            });
        }
        self.replicas.all = Arc::new(all);
        Ok(self)
    }

    /// What the next replica answers. `None` if there is none, or if it fails, whatever the reason: the
    /// primary should be asked then.
    pub(super) async fn read_from_replica<T, F>(&self, read: impl FnOnce(PetReads) -> F) -> Option<T>
    where
        F: Future<Output = Result<T, DbErr>>,
    {
        let replica = self.replicas.next()?;
        match time::timeout(DEADLINE, read(replica.pet_reads.clone())).await {
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
            // While the primary is away nothing is written that a replica could lack.
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

    async fn primary(&self) -> Result<Primary, PetStoreError> {
        let question = "SELECT system_identifier, pg_current_wal_lsn()::text FROM pg_control_system()";
        let question = move || Statement::from_string(DbBackend::Postgres, question);
        let row = self.read(move |db| db.query_one_raw(question())).await?;
        let row = row.ok_or_else(|| PetStoreError::Bug("PostgreSQL does not know itself".into()))?;
        Ok(Primary { system: row.try_get_by_index(0)?, position: row.try_get_by_index(1)? })
    }
}

impl Replicas {
    /// The usable one whose turn it is.
    fn next(&self) -> Option<&Replica> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let (before, after) = self.all.split_at_checked(turn.checked_rem(self.all.len())?)?;
        after.iter().chain(before).find(|replica| replica.is_usable())
    }

    /// Those of every replica, to be set up before they are used.
    pub(super) fn connections_mut(&mut self) -> impl Iterator<Item = &mut Connections> {
        let all = Arc::make_mut(&mut self.all).iter_mut();
        all.flat_map(|Replica { connections, pet_reads, .. }| {
            [connections].into_iter().chain(pet_reads.connections_mut())
        })
    }

    /// How many are used.
    pub(super) fn metrics(&self) -> Box<dyn Collector> {
        let all = Arc::clone(&self.all);
        let used = gauge("petstore_replicas_used", "Replicas of the store that pets are read from.");
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

    /// Judges whether it follows that primary, and has come as far as the position.
    async fn check(&self, primary: &Primary) {
        let question = Statement::from_sql_and_values(
            DbBackend::Postgres,
            "SELECT pg_is_in_recovery() AND system_identifier = $1, pg_last_wal_replay_lsn() >= $2::pg_lsn \
             FROM pg_control_system()",
            [primary.system.into(), primary.position.as_str().into()],
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

    /// It did not answer.
    fn fail(&self, cause: &(dyn std::error::Error + 'static)) {
        self.connections.mark_stale();
        self.set_usable(false, &cause.to_string());
    }

    /// Logs one line when that changes, not one for every call.
    fn set_usable(&self, is_usable: bool, why: &str) {
        if self.is_usable.swap(is_usable, Ordering::Relaxed) != is_usable {
            let replica = self.url.as_ref();
            if is_usable {
                tracing::info!(replica, "the replica is read from");
            } else {
                tracing::warn!(replica, "the replica is passed over: {why}");
            }
        }
    }
}

#[cfg(test)]
mod tests;
