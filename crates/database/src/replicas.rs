//! Replicas of the database, which may answer batched reads.

use std::{
    collections::VecDeque,
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::future::join_all;
use parking_lot::Mutex;
use petstore_telemetry::metrics::{Collector, IntGauge, Sampled, gauge};
use sea_orm::{ConnectionTrait, DbBackend, DbErr, Statement};
use tokio::time;

use crate::{
    Database, DatabaseError, DatabaseUrl, OpenError, PostgresAddress,
    connection::{BatchError, Batched, Batches, Connections},
    fault,
    health::Health,
    postgres,
};

/// Interval between checks of replicas, and timeout of one check.
const INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of checks that a replica may lag behind. With the check that detects the lag, and its
/// duration, a replica in use shows everything that is older than 10 s.
const MOST_BEHIND: usize = 7;

/// The replicas, used in turn. There are none at first.
#[derive(Clone, Default)]
pub(super) struct Replicas {
    all: Arc<Vec<Replica>>,
    /// Connections for batches, of every kind and replica.
    lanes: Arc<Vec<Connections>>,
    turn: Arc<AtomicUsize>,
}

#[derive(Clone)]
struct Replica {
    address: Arc<PostgresAddress>,
    health: Arc<Health>,
    /// Connections for checks of the replica itself, and for calls that are repeated alone.
    connections: Connections,
    /// Why it is not used, without numbers, which may differ at each check; `None` if it answers, follows the
    /// primary and does not lag too far.
    fault: Arc<Mutex<Option<String>>>,
}

/// Batches of calls of one kind that read, to the primary and to each replica. What they run is
/// [`Batched::answer`] of the kind. Clones share the queues.
#[derive(Clone)]
pub struct BatchedReads<B: Batched> {
    pub(super) primary: Batches<B>,
    replicas: Arc<Vec<(Replica, Batches<B>)>>,
}

/// Returns the answer to the call. Repeats it alone if it may have failed because of another call.
pub(super) async fn ask<B: Batched>(batches: &Batches<B>, call: B::Call) -> Result<B::Answer, DbErr> {
    match batches.ask(call.clone()).await {
        Err(BatchError { error, is_shared: true }) if !fault::is_outage(&error) => {
            batches.ask_alone(call).await
        }
        answer => answer.map_err(|error| error.error),
    }
}

impl Database {
    /// Returns the database, which may now also answer batched reads from these replicas. No connection is
    /// made yet: a replica that is unavailable is skipped.
    ///
    /// # Errors
    ///
    /// [`OpenError::NotReplicated`] unless each [may be one](DatabaseUrl::may_replicate).
    pub fn with_replicas(mut self, url: &DatabaseUrl, replicas: &[DatabaseUrl]) -> Result<Self, OpenError> {
        let mut all = Vec::with_capacity(replicas.len());
        for replica in replicas {
            let (DatabaseUrl::Postgres(address), true) = (replica, replica.may_replicate(url)) else {
                return Err(OpenError::NotReplicated);
            };
            let health = Arc::<Health>::default(); // damage of a replica is not damage of the store
            let mut connections = postgres::reader(address, &health);
            self.statements.observe(&mut connections);
            all.push(Replica {
                address: Arc::new((**address).clone()),
                health,
                connections,
                fault: Arc::new(Mutex::new(Some("not checked yet".into()))),
            });
        }
        self.replicas.all = Arc::new(all);
        Ok(self)
    }

    /// Returns batches of calls that read, on this database and on the replicas that it has by now. On
    /// PostgreSQL they get connections of their own, which have this name in metrics. `slots` is the number
    /// of batches in flight while none is overdue, at most 2.
    pub fn batched_reads<B: Batched>(&mut self, name: &'static str, slots: usize) -> BatchedReads<B> {
        let mut alone = self.reader.clone();
        self.statements.observe(&mut alone);
        let lane = self.lane(name, true).unwrap_or_else(|| alone.clone());
        let primary = Batches::new(lane, alone, slots);
        let mut replicas = Vec::with_capacity(self.replicas.all.len());
        for replica in self.replicas.all.iter() {
            let Replica { address, connections, health, .. } = replica;
            let mut lane = postgres::lane(address, connections, health, true);
            self.statements.observe(&mut lane);
            Arc::make_mut(&mut self.replicas.lanes).push(lane.clone());
            replicas.push((replica.clone(), Batches::new(lane, connections.clone(), slots)));
        }
        BatchedReads { primary, replicas: Arc::new(replicas) }
    }

    /// Returns the answer of the next replica. Returns `None` if there is none or if it fails, for any
    /// reason. The primary should be asked then.
    pub async fn ask_replica<B: Batched>(&self, reads: &BatchedReads<B>, call: B::Call) -> Option<B::Answer> {
        let (replica, batches) = self.replicas.next(&reads.replicas)?;
        match time::timeout(Duration::from_millis(200), ask(batches, call)).await {
            Ok(Ok(result)) => return Some(result),
            _ if !replica.is_usable() => {} // many calls may fail at once, for several reasons
            Ok(Err(error)) => replica.fail(&error),
            Err(_) => replica.fail(&"no answer in time"),
        }
        None
    }

    /// Checks the replicas every second. Never ends.
    pub(super) async fn watch_replicas(&self) -> Infallible {
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
    async fn primary(&self) -> Result<(i64, String), DatabaseError> {
        let question = "SELECT system_identifier, pg_current_wal_lsn()::text FROM pg_control_system()";
        let question = move || Statement::from_string(DbBackend::Postgres, question);
        let row = self.read(move |db| db.query_one_raw(question())).await?;
        let row = row.ok_or_else(|| DbErr::Custom("PostgreSQL does not know itself".into()))?;
        Ok((row.try_get_by_index(0)?, row.try_get_by_index(1)?))
    }
}

impl Replicas {
    /// Returns the batches of the next usable replica in turn.
    fn next<'r, B>(&self, all: &'r [(Replica, B)]) -> Option<&'r (Replica, B)> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let (before, after) = all.split_at_checked(turn.checked_rem(all.len())?)?;
        after.iter().chain(before).find(|(replica, _)| replica.is_usable())
    }

    /// Returns the metric of the number of replicas in use.
    pub(super) fn metrics(&self) -> Box<dyn Collector> {
        let replicas = self.clone();
        let used = gauge("petstore_replicas_used", "Replicas in use, from which pets are read.");
        Sampled::boxed(used, move |used: &IntGauge| {
            used.set(i64::try_from(replicas.usable()).unwrap_or(i64::MAX));
        })
    }

    /// Returns the number of replicas that are in use.
    pub(super) fn usable(&self) -> usize {
        self.all.iter().filter(|replica| replica.is_usable()).count()
    }

    pub(super) async fn close(&self) {
        for connections in self.lanes.iter().chain(self.all.iter().map(|replica| &replica.connections)) {
            connections.close().await;
        }
    }
}

impl Replica {
    fn is_usable(&self) -> bool {
        self.fault.lock().is_none()
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
            Ok(Ok((true, true))) => self.set_fault(None),
            Ok(Ok((true, false))) => self.set_fault(Some("it is more than 10 seconds behind")),
            Ok(Ok((false, _))) => self.set_fault(Some("it does not follow the store's server")),
            Ok(Err(error)) => self.fail(&error),
            Err(_) => self.fail(&"no answer within a second"),
        }
    }

    /// Records that it did not answer.
    fn fail(&self, cause: &impl ToString) {
        self.connections.mark_stale();
        self.set_fault(Some(&cause.to_string()));
    }

    /// Sets why it is not used, or that it is. Logs one line for each change, not one for each call.
    fn set_fault(&self, why: Option<&str>) {
        let fault = why.map(|why| why.replace(char::is_numeric, ""));
        if std::mem::replace(&mut *self.fault.lock(), fault.clone()) != fault {
            let replica = self.address.to_string();
            match why {
                None => tracing::info!(replica, "reading from the replica"),
                Some(why) => tracing::warn!(replica, "not reading from the replica: {why}"),
            }
        }
    }
}

#[cfg(test)]
mod tests;
