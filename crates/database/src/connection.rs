//! Connections to the database, each of which has one owner.
//!
//! A connection belongs to a task, its [`owner`], which never lends it out. Callers submit a job to a
//! [`queue`] and wait for the answer. A caller that gives up does not affect the connection: the owner
//! finishes the job, or closes the connection if the job times out. So no statement is cut off half-way, and
//! a connection is reused only if it is known to be usable and outside of any transaction.
//!
//! ```text
//! caller ──job──▶ queue ──▶ owner ── connection ──▶ database
//!    ▲                        │
//!    └────────answer──────────┘
//! ```
//!
//! - On connections that read, the database refuses everything else.
//! - A job that writes is a transaction. Its owner begins it, and commits it if the job succeeds. Nothing
//!   else can begin or end one. If beginning or ending it was not answered, the connection is closed.
//! - So on PostgreSQL one statement that writes may be a whole job ([`Connections::query`]): its connection
//!   is in no transaction. On SQLite it may be one text that holds a whole transaction
//!   ([`Session::transact`]).
//! - Waiting calls of one kind may be answered by one job ([`Batches`]).

use std::{sync::Arc, time::Duration};

use futures_util::future::{BoxFuture, join_all};
use parking_lot::Mutex;
use sea_orm::{ConnectionTrait, DbBackend, DbErr, QueryResult, Statement, metric};
use tokio::{sync::oneshot, task::JoinHandle, time};

mod batches;
mod owner;
mod queue;
mod session;

pub use batches::{BatchError, Batched, Batches};
pub use session::Session;

pub(super) use batches::SLOTS;
pub(super) use session::Target;

use super::health::Health;
use owner::{DatabaseServer, Shared};
use queue::{Job, Queue, TypedJob};

/// Timeout for acquiring a free owner, and a new connection if that owner needs one. Its error has the
/// reason, and comes before those who ask every second give up.
const ACQUIRE_TIMEOUT: Duration = Duration::from_millis(900);

/// Callback that runs after each statement.
pub(super) type Observer = Arc<dyn Fn(&metric::Info<'_>) + Send + Sync>;

/// Settings for making connections and for keeping them.
pub(super) struct Settings {
    pub(super) target: Target,
    /// `true` if every job writes.
    pub(super) is_for_writes: bool,
    /// Number of connections, and so of jobs that run concurrently.
    pub(super) connections: usize,
    /// Maximum run time of a job, after which its connection is closed. `None` if closing would not stop the
    /// job.
    pub(super) job_timeout: Option<Duration>,
    /// Lifetimes of connections. `None` for a database that does not close them.
    pub(super) lifetimes: Option<Lifetimes>,
    /// Record of damage.
    pub(super) health: Arc<Health>,
}

/// Times after which a usable connection is closed, or pinged before use.
pub(super) struct Lifetimes {
    /// Maximum time for which a connection may be idle before it is closed.
    pub(super) max_idle: Duration,
    /// Maximum age of a connection before it is closed.
    pub(super) max_age: Duration,
    /// Idle time after which a connection is pinged before it is used: it may have been cut unnoticed.
    pub(super) ping_after: Duration,
}

/// Connections to one database. Clones share them, and each clone may have its own observer.
#[derive(Clone)]
pub struct Connections {
    owners: Arc<Owners>,
    observer: Option<Observer>,
}

struct Owners {
    shared: Arc<Shared>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl Connections {
    /// Creates the owners. Makes no connection yet: the first job of each owner does.
    pub(super) fn new(settings: Settings) -> Self {
        Self::with(settings, Arc::default())
    }

    /// Returns more connections to the same server. A failure that cuts one connection of either group
    /// probably cut all.
    pub(super) fn beside(&self, settings: Settings) -> Self {
        Self::with(settings, Arc::clone(&self.owners.shared.server))
    }

    fn with(settings: Settings, server: Arc<DatabaseServer>) -> Self {
        let count = settings.connections;
        let shared = Arc::new(Shared::new(settings, server));
        let tasks = (0..count).map(|_| tokio::spawn(owner::work(Arc::clone(&shared)))).collect();
        Self { owners: Arc::new(Owners { shared, tasks: Mutex::new(tasks) }), observer: None }
    }

    /// Returns the kind of database.
    pub fn backend(&self) -> DbBackend {
        self.owners.shared.settings.target.backend()
    }

    /// Sets the observer, which is called after each statement that is sent through this handle from now on.
    pub(super) fn observe(&mut self, observer: Observer) {
        self.observer = Some(observer);
    }

    /// Records that a connection may have been lost. All connections that were in use before are pinged
    /// before they are used again.
    pub(super) fn mark_stale(&self) {
        self.owners.shared.server.record_failure();
    }

    /// Returns the numbers of idle and of busy connections.
    pub fn usage(&self) -> (usize, usize) {
        self.owners.shared.usage()
    }

    /// Returns the result of work in which each statement is committed separately.
    ///
    /// # Errors
    ///
    /// The error of the work, or of the wait for a connection.
    pub async fn read<T, F>(&self, work: F) -> Result<T, DbErr>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c Session) -> BoxFuture<'c, Result<T, DbErr>> + Send + 'static,
    {
        self.submit(work).await
    }

    /// Returns the result of work in a transaction. It is committed if the result is `Ok` and no statement
    /// failed. It is repeated once if a prepared statement was stale.
    pub(super) async fn transaction<T, E, F>(&self, work: F) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<DbErr> + Send + 'static,
        F: for<'c> FnOnce(&'c Session) -> BoxFuture<'c, Result<T, E>> + Clone + Send + 'static,
    {
        self.submit(|session| {
            Box::pin(async move {
                // SQLite itself prepares stale statements again.
                let again = (session.get_database_backend() == DbBackend::Postgres).then(|| work.clone());
                let result = in_transaction(session, work).await;
                let is_stale = session.has_prepared_again().await;
                match again.filter(|_| is_stale && result.is_err()) {
                    Some(again) => in_transaction(session, again).await,
                    None => result,
                }
            })
        })
        .await
    }

    /// Returns the rows of one statement, which is committed separately.
    ///
    /// # Errors
    ///
    /// The error of the statement, or of the wait for a connection.
    pub async fn query(&self, statement: Statement) -> Result<Vec<QueryResult>, DbErr> {
        self.submit(|session| session.query_all_raw(statement)).await
    }

    pub(super) async fn submit<T, E, F>(&self, work: F) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<DbErr> + Send + 'static,
        F: for<'c> FnOnce(&'c Session) -> BoxFuture<'c, Result<T, E>> + Send + 'static,
    {
        let (answer, mut answered) = oneshot::channel();
        let job = TypedJob::new(self.observer.clone(), work, answer);
        let place = Queue::submit(&self.owners.shared.queue, Job::new(Box::new(job)));
        let answer = match time::timeout(ACQUIRE_TIMEOUT, &mut answered).await {
            Ok(answer) => answer,
            Err(_) if place.is_some_and(|place| place.withdraw()) => {
                return Err(self.owners.shared.no_connection().into());
            }
            Err(_) => answered.await, // the job has begun
        };
        answer.unwrap_or_else(|_| Err(DbErr::Custom("a job ended without an answer".into()).into()))
    }

    /// Refuses waiting and new jobs, and closes the connections once the jobs in flight are done.
    pub(super) async fn close(&self) {
        self.owners.shared.queue.close();
        let tasks = std::mem::take(&mut *self.owners.tasks.lock());
        join_all(tasks).await;
    }
}

/// Commits the transaction if the work succeeded, and rolls it back otherwise.
async fn in_transaction<F, T, E>(session: &Session, work: F) -> Result<T, E>
where
    E: From<DbErr>,
    F: for<'c> FnOnce(&'c Session) -> BoxFuture<'c, Result<T, E>>,
{
    session.begin().await?;
    let result = work(session).await;
    match &result {
        Ok(_) => session.commit().await?,
        Err(_) => session.roll_back().await,
    }
    result
}

/// Closes the queue when no caller is left. The owners then close their connections and end.
impl Drop for Owners {
    fn drop(&mut self) {
        self.shared.queue.close();
    }
}

#[cfg(test)]
mod tests;
