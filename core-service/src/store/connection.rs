//! Connections to the database, each of which has one owner.
//!
//! A connection belongs to a task, its [`owner`], which never lends it out. Callers hand a [`job`] over and
//! wait for the answer. When a caller gives up, what it drops does not reach the connection: the owner
//! finishes the job, or closes the connection where the job takes too long. So no statement is cut off
//! half-way, and a connection is used again only if it is known to be usable and outside of any transaction.
//!
//! ```text
//! caller ──job──▶ queue ──▶ owner ── connection ──▶ database
//!    ▲                        │
//!    └────────answer──────────┘
//! ```
//!
//! - Connections that read are refused everything else by the database.
//! - A job that writes is a transaction, which its owner begins, and commits if the job succeeds. Nothing
//!   else can begin or end one, and a connection on which that was not answered is closed.
//! - So on PostgreSQL one statement that writes may be a job by itself ([`Connections::query`]): its
//!   connection is in no transaction. On SQLite it may be one text that holds a whole transaction
//!   ([`Session::transact`]).
//! - Calls of one kind that wait may be answered by one job ([`Batches`]).

use std::{fmt, sync::Arc, time::Duration};

use futures_util::future::{BoxFuture, join_all};
use sea_orm::{ConnAcquireErr, ConnectionTrait, DbBackend, DbErr, QueryResult, Statement, metric};
use tokio::{sync::oneshot, task::JoinHandle, time};

mod batches;
mod driver;
mod job;
mod owner;
mod queue;
mod session;
mod stale_connections;

pub(super) use batches::{BatchError, Batched, Batches, Turns};
pub(super) use driver::Target;
pub(super) use session::Session;

use super::health::Health;
use job::{Job, Kind, TypedJob};
use owner::Shared;
use queue::Queue;
use stale_connections::StaleConnections;

/// How long a call waits for an owner that is free, and for a new connection if that one needs it.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(1);

/// Called after each statement.
pub(super) type Observer = Arc<dyn Fn(&metric::Info<'_>) + Send + Sync>;

/// How connections are made, and how long they are kept.
pub(super) struct Settings {
    pub(super) target: Target,
    /// So many jobs are done at once.
    pub(super) connections: usize,
    /// How long a job may go on after it has begun. Its connection is closed then. `None` where that would
    /// not stop it.
    pub(super) job_timeout: Option<Duration>,
    /// `None` for a database that does not hang up.
    pub(super) lifetimes: Option<Lifetimes>,
    /// Where damage is recorded.
    pub(super) health: Health,
}

/// When a connection is closed although it is usable, and when it is pinged first.
pub(super) struct Lifetimes {
    /// Closed after being idle for so long.
    pub(super) max_idle: Duration,
    /// Closed after being open for so long.
    pub(super) max_age: Duration,
    /// A connection that was idle for so long may have been cut unnoticed: it is pinged before it is used.
    pub(super) ping_after: Duration,
}

/// Connections to one database. Clones share them, and may be observed each by another.
#[derive(Clone)]
pub(super) struct Connections {
    owners: Arc<Owners>,
    observer: Option<Observer>,
}

struct Owners {
    shared: Arc<Shared>,
    tasks: std::sync::Mutex<Vec<JoinHandle<()>>>,
}

impl Connections {
    /// Makes no connection yet: the first job of each owner does.
    pub(super) fn new(settings: Settings) -> Self {
        Self::with(settings, Arc::new(StaleConnections::new()))
    }

    /// More connections, to the same server: what cuts one of either probably cut all.
    pub(super) fn beside(&self, settings: Settings) -> Self {
        Self::with(settings, Arc::clone(&self.owners.shared.stale))
    }

    fn with(settings: Settings, stale: Arc<StaleConnections>) -> Self {
        let count = settings.connections;
        let shared = Arc::new(Shared::new(settings, stale));
        let tasks = (0..count).map(|_| tokio::spawn(owner::work(Arc::clone(&shared)))).collect();
        Self { owners: Arc::new(Owners { shared, tasks: std::sync::Mutex::new(tasks) }), observer: None }
    }

    /// The kind of database.
    pub(super) fn backend(&self) -> DbBackend {
        self.owners.shared.settings.target.backend()
    }

    /// From now on the observer is called after each statement that is sent through this handle.
    pub(super) fn observe(&mut self, observer: impl Fn(&metric::Info<'_>) + Send + Sync + 'static) {
        self.observer = Some(Arc::new(observer));
    }

    /// A connection may have been lost: all that were in use before are pinged before they are used again.
    pub(super) fn mark_stale(&self) {
        self.owners.shared.stale.record_failure();
    }

    /// Connections that are idle, and those at work.
    pub(super) fn usage(&self) -> (usize, usize) {
        self.owners.shared.usage()
    }

    /// Returns the result of work, each of whose statements is committed by itself.
    pub(super) async fn read<T, F>(&self, work: F) -> Result<T, DbErr>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c Session) -> BoxFuture<'c, Result<T, DbErr>> + Send + 'static,
    {
        self.submit(Kind::Statements, work).await
    }

    /// The result of work in a transaction, which is committed if the result is `Ok`, and only if no
    /// statement failed.
    pub(super) async fn transaction<T, E, F>(&self, work: F) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<DbErr> + Send + 'static,
        F: for<'c> FnOnce(&'c Session) -> BoxFuture<'c, Result<T, E>> + Send + 'static,
    {
        self.submit(Kind::Transaction, work).await
    }

    /// Returns the rows of one statement, which is committed by itself.
    pub(super) async fn query(&self, statement: Statement) -> Result<Vec<QueryResult>, DbErr> {
        self.submit(Kind::Statements, |session| session.query_all_raw(statement)).await
    }

    async fn submit<T, E, F>(&self, kind: Kind, work: F) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<DbErr> + Send + 'static,
        F: for<'c> FnOnce(&'c Session) -> BoxFuture<'c, Result<T, E>> + Send + 'static,
    {
        let (answer, mut answered) = oneshot::channel();
        let job = TypedJob::new(kind, self.observer.clone(), work, answer);
        let place = Queue::submit(&self.owners.shared.queue, Job::new(Box::new(job)));
        let answer = match time::timeout(ACQUIRE_TIMEOUT, &mut answered).await {
            Ok(answer) => answer,
            Err(_) if place.is_some_and(|place| place.withdraw()) => {
                return Err(DbErr::ConnectionAcquire(ConnAcquireErr::Timeout).into());
            }
            Err(_) => answered.await, // the job has begun
        };
        answer.unwrap_or_else(|_| Err(DbErr::Custom("a job ended without an answer".into()).into()))
    }

    /// Refuses what waits and comes, and closes the connections once the jobs under way are done.
    pub(super) async fn close(&self) {
        self.owners.shared.queue.close();
        let tasks =
            std::mem::take(&mut *self.owners.tasks.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
        join_all(tasks).await;
    }
}

/// No caller is left: the owners close their connections and end.
impl Drop for Owners {
    fn drop(&mut self) {
        self.shared.queue.close();
    }
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connections").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod unchecked;
