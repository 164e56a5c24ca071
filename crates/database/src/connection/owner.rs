//! The task that owns a connection.

use std::{
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::FutureExt;
use sea_orm::{ConnAcquireErr, DbErr, RuntimeErr, sqlx};
use tokio::time::{self, Instant};

use crate::fault;

use super::{
    ACQUIRE_TIMEOUT, Queue, Settings,
    queue::{Job, Next},
    session::{Driver, Session},
};

/// State shared by the owners of connections to one database.
pub(super) struct Shared {
    pub(super) settings: Settings,
    pub(super) queue: Arc<Queue>,
    pub(super) stale: Arc<StaleConnections>,
    open: AtomicUsize,
    busy: AtomicUsize,
}

impl Shared {
    pub(super) fn new(settings: Settings, stale: Arc<StaleConnections>) -> Self {
        Self { settings, queue: Arc::default(), stale, open: AtomicUsize::new(0), busy: AtomicUsize::new(0) }
    }

    /// Returns the numbers of idle and of busy connections.
    pub(super) fn usage(&self) -> (usize, usize) {
        let busy = self.busy.load(Ordering::Relaxed);
        (self.open.load(Ordering::Relaxed).saturating_sub(busy), busy)
    }

    /// Returns a new connection. Retries until the deadline where that may help.
    async fn connect(&self, deadline: Instant) -> Result<Driver, DbErr> {
        let (mut pause, longest_pause) = (Duration::from_millis(10), Duration::from_millis(200));
        loop {
            if !self.settings.health.is_file_in_place().await {
                let error = std::io::Error::other("the store's file was replaced or removed");
                return Err(DbErr::Conn(RuntimeErr::SqlxError(sqlx::Error::from(error).into())));
            }
            match time::timeout_at(deadline, self.settings.target.connect()).await {
                Ok(Ok(driver)) => return Ok(driver),
                Ok(Err(error)) if may_accept_soon(&error) => {}
                Ok(Err(error)) => return Err(DbErr::Conn(RuntimeErr::SqlxError(error.into()))),
                Err(_) => return Err(DbErr::ConnectionAcquire(ConnAcquireErr::Timeout)),
            }
            time::sleep(pause).await;
            pause = longest_pause.min(pause * 2);
        }
    }
}

/// Runs one job after the other until the queue is closed.
pub(super) async fn work(shared: Arc<Shared>) {
    let mut owner = Owner { shared, connection: None, done: None };
    while let Some(mut job) = owner.next_job().await {
        if !job.work.is_awaited() {
            continue;
        }
        match owner.usable_connection(job.submitted_at + ACQUIRE_TIMEOUT).await {
            Some(connection) if job.work.is_awaited() => {
                owner.run_job(&mut job, connection).await;
                owner.done = Some(job);
            }
            Some(connection) => owner.connection = Some(connection),
            None => owner.connect(job).await,
        }
    }
    if let Some(connection) = owner.connection.take() {
        connection.close().await;
    }
}

struct Owner {
    shared: Arc<Shared>,
    /// The connection, if it is usable and in no transaction.
    connection: Option<OpenConnection>,
    /// The finished job, if it is not answered yet.
    done: Option<Job>,
}

/// A connection that is open. Dropping it cuts it.
struct OpenConnection {
    session: Session,
    opened_at: Instant,
    used_at: Instant,
    _open: CountGuard,
}

impl Owner {
    /// Answers the last job after this owner has queued for the next one, so that a caller that returns at
    /// once finds it idle.
    async fn next_job(&mut self) -> Option<Job> {
        let next = self.shared.queue.next(self.connection.is_some());
        if let Some(done) = self.done.take() {
            done.work.answer();
        }
        let mut job = match next {
            Next::Do(job) => return Some(job),
            Next::Wait(job) => job,
            Next::End => return None,
        };
        if let Some(end) = self.connection.as_ref().and_then(|connection| self.expires_at(connection)) {
            if let Ok(job) = time::timeout_at(end, &mut job).await {
                return job.ok();
            }
            self.close_in_background();
        }
        job.await.ok()
    }

    /// Returns the connection that is kept, if it is usable.
    async fn usable_connection(&mut self, deadline: Instant) -> Option<OpenConnection> {
        let mut connection = self.connection.take()?;
        if self.shared.stale.is_replaced(connection.opened_at.elapsed()) {
            tokio::spawn(connection.close());
            return None;
        }
        (!self.may_be_stale(&connection) || connection.answers(deadline).await).then_some(connection)
    }

    /// Makes a connection for the job, which fails if that fails. Until then it waits in the queue, where an
    /// owner that has a connection takes it: a connection that is slow to make, or that the server refuses,
    /// does not hold up a job that another can do.
    async fn connect(&mut self, mut job: Job) {
        let deadline = job.submitted_at + ACQUIRE_TIMEOUT;
        if deadline <= Instant::now() {
            // No other owner could ping its connection in time, and would cut it.
            job.work.fail(DbErr::ConnectionAcquire(ConnAcquireErr::Timeout));
            self.done = Some(job);
            return;
        }
        let shared = Arc::clone(&self.shared);
        let Some(claim) = shared.queue.claim(job) else { return };
        match shared.connect(deadline).await {
            Ok(driver) => self.connection = Some(OpenConnection::new(driver, &shared)),
            Err(error) => {
                if let Some(mut job) = claim.take() {
                    job.work.fail(error);
                    self.done = Some(job);
                }
            }
        }
    }

    /// Runs the job, and keeps the connection if it is usable afterwards. Otherwise, or if the job panics or
    /// times out, the connection is cut: the database undoes all that was not committed.
    async fn run_job(&mut self, job: &mut Job, mut connection: OpenConnection) {
        let _busy = CountGuard::new(&self.shared, |shared| &shared.busy);
        // A connection is not used again after a panic.
        let running = AssertUnwindSafe(job.work.run(&mut connection.session)).catch_unwind();
        let failure = match self.shared.settings.job_timeout {
            Some(longest) => match time::timeout(longest, running).await {
                Ok(ended) => ended.err().map(|_panic| panicked()),
                Err(_) => Some(DbErr::ConnectionAcquire(ConnAcquireErr::Timeout)),
            },
            None => running.await.err().map(|_panic| panicked()),
        };
        if failure.is_some() || !connection.session.is_usable() {
            self.shared.stale.record_failure();
            if let Some(failure) = failure {
                job.work.fail(failure);
            }
            return;
        }
        if connection.session.is_read_only() {
            self.shared.stale.record_read_only();
        } else if self.shared.settings.is_for_writes && connection.session.has_succeeded() {
            self.shared.stale.record_write();
        }
        connection.used_at = Instant::now();
        let is_old = self.expires_at(&connection).is_some_and(|end| end <= connection.used_at);
        self.connection = Some(connection);
        if is_old {
            self.close_in_background();
        }
    }

    /// Closes the connection without waiting for the result.
    fn close_in_background(&mut self) {
        if let Some(connection) = self.connection.take() {
            tokio::spawn(connection.close());
        }
    }

    /// Returns the time at which the connection expires.
    fn expires_at(&self, connection: &OpenConnection) -> Option<Instant> {
        let lifetimes = self.shared.settings.lifetimes.as_ref()?;
        Some((connection.opened_at + lifetimes.max_age).min(connection.used_at + lifetimes.max_idle))
    }

    /// Returns `true` if the connection may have been cut while it was idle.
    fn may_be_stale(&self, connection: &OpenConnection) -> bool {
        let Some(lifetimes) = &self.shared.settings.lifetimes else { return false };
        let idle_for = connection.used_at.elapsed();
        idle_for >= lifetimes.ping_after || self.shared.stale.include(idle_for)
    }
}

impl OpenConnection {
    fn new(driver: Driver, shared: &Arc<Shared>) -> Self {
        let Settings { target, health, .. } = &shared.settings;
        let now = Instant::now();
        Self {
            session: Session::new(driver, target.backend(), health.clone()),
            opened_at: now,
            used_at: now,
            _open: CountGuard::new(shared, |shared| &shared.open),
        }
    }

    async fn answers(&mut self, deadline: Instant) -> bool {
        matches!(time::timeout_at(deadline, self.session.ping()).await, Ok(Ok(())))
    }

    /// Closes the connection as the protocol requires.
    async fn close(self) {
        let closed = time::timeout(Duration::from_secs(1), self.session.close()).await;
        if let Ok(Err(error)) = closed {
            tracing::debug!(%error, "a connection to the database was not closed in order");
        }
    }
}

/// Returns the error of a job that panicked. The panic hook has logged the location.
fn panicked() -> DbErr {
    DbErr::Custom("work on a connection panicked".into())
}

/// Returns `true` if the server is starting or unavailable, or has no connection to spare: it may accept one
/// soon.
fn may_accept_soon(error: &sqlx::Error) -> bool {
    match error {
        error if fault::is_hang_up(error) => true,
        sqlx::Error::Io(error) => error.kind() == std::io::ErrorKind::ConnectionRefused,
        sqlx::Error::Database(error) => error.is_transient_in_connect_phase(),
        _ => false,
    }
}

/// Guard that adds one to a count until it is dropped.
struct CountGuard {
    shared: Arc<Shared>,
    count: fn(&Shared) -> &AtomicUsize,
}

impl CountGuard {
    fn new(shared: &Arc<Shared>, count: fn(&Shared) -> &AtomicUsize) -> Self {
        count(shared).fetch_add(1, Ordering::Relaxed);
        Self { shared: Arc::clone(shared), count }
    }
}

impl Drop for CountGuard {
    fn drop(&mut self) {
        (self.count)(&self.shared).fetch_sub(1, Ordering::Relaxed);
    }
}

/// Time of the last connection failure. The cause of that failure (a restart, a failover, an administrator)
/// probably cut all other connections too. Every connection that was last used before it is pinged before it
/// is used again, so that a retry does not get the next dead one.
#[derive(Debug)]
pub(super) struct StaleConnections {
    start: Instant,
    /// Milliseconds after `start`, rounded up; 0 for no failure.
    failed_at: AtomicU64,
    /// `true` if the server refused the last write because it takes none.
    is_read_only: AtomicBool,
    /// Time at which another server may have replaced a read-only one, in milliseconds after `start`, rounded
    /// up; 0 for never. Connections that were opened before are closed, because the old server may run on.
    replaced_at: AtomicU64,
}

impl StaleConnections {
    pub(super) fn new() -> Self {
        Self {
            start: Instant::now(),
            failed_at: AtomicU64::new(0),
            is_read_only: AtomicBool::new(false),
            replaced_at: AtomicU64::new(0),
        }
    }

    /// Records that a connection has failed just now.
    pub(super) fn record_failure(&self) {
        self.failed_at.fetch_max(self.elapsed_millis().saturating_add(1), Ordering::Relaxed);
    }

    /// Returns `true` if a connection that has been idle for `idle_for` was last used before the last
    /// failure.
    pub(super) fn include(&self, idle_for: Duration) -> bool {
        let idle = u64::try_from(idle_for.as_millis()).unwrap_or(u64::MAX);
        self.elapsed_millis().saturating_sub(idle) <= self.failed_at.load(Ordering::Relaxed)
            && self.failed_at.load(Ordering::Relaxed) > 0
    }

    /// Records that the server takes no writes. While this lasts, connections are opened again once a second
    /// at most.
    fn record_read_only(&self) {
        self.is_read_only.store(true, Ordering::Relaxed);
        let now = self.elapsed_millis().saturating_add(1);
        if now >= self.replaced_at.load(Ordering::Relaxed).saturating_add(1_000) {
            self.replaced_at.fetch_max(now, Ordering::Relaxed);
        }
    }

    /// Records that the server has taken a write. If the last write was refused, it may be another server
    /// than that of the connections that read.
    fn record_write(&self) {
        if self.is_read_only.load(Ordering::Relaxed) && self.is_read_only.swap(false, Ordering::Relaxed) {
            self.replaced_at.fetch_max(self.elapsed_millis().saturating_add(1), Ordering::Relaxed);
        }
    }

    /// Returns `true` if a connection that has been open for `open_for` may lead to a server that was
    /// replaced.
    fn is_replaced(&self, open_for: Duration) -> bool {
        let replaced_at = self.replaced_at.load(Ordering::Relaxed);
        let open_for = u64::try_from(open_for.as_millis()).unwrap_or(u64::MAX);
        replaced_at > 0 && self.elapsed_millis().saturating_sub(open_for) <= replaced_at
    }

    fn elapsed_millis(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_connection_last_used_before_a_failure_is_stale() {
        let stale = StaleConnections {
            start: Instant::now().checked_sub(Duration::from_mins(1)).unwrap(),
            ..StaleConnections::new()
        };
        assert!(!stale.include(Duration::from_secs(10)), "nothing has failed yet");
        stale.failed_at.store(30_000, Ordering::Relaxed);
        assert!(stale.include(Duration::from_secs(40)));
        assert!(!stale.include(Duration::from_secs(20)));
        stale.record_failure();
        assert!(stale.include(Duration::ZERO), "a failure of this millisecond");
    }

    #[test]
    fn connections_are_opened_again_once_a_second_while_the_server_is_read_only_and_once_more_after() {
        let stale = StaleConnections {
            start: Instant::now().checked_sub(Duration::from_mins(1)).unwrap(),
            ..StaleConnections::new()
        };
        stale.record_write();
        assert!(!stale.is_replaced(Duration::from_secs(10)), "no write was refused");
        stale.replaced_at.store(59_900, Ordering::Relaxed);
        stale.record_read_only();
        assert!(!stale.is_replaced(Duration::from_millis(50)), "they have just been opened again");
        stale.replaced_at.store(58_900, Ordering::Relaxed);
        stale.record_read_only();
        assert!(stale.is_replaced(Duration::from_millis(50)));
        stale.replaced_at.store(59_900, Ordering::Relaxed);
        stale.record_write();
        assert!(stale.is_replaced(Duration::from_millis(50)), "the first write may be to another server");
    }

    #[test]
    fn only_a_server_that_may_be_starting_is_asked_again() {
        use std::io::ErrorKind::{ConnectionRefused, ConnectionReset, NotFound};
        for (kind, is_starting) in [(ConnectionRefused, true), (ConnectionReset, true), (NotFound, false)] {
            assert_eq!(may_accept_soon(&sqlx::Error::Io(kind.into())), is_starting, "{kind}");
        }
        assert!(!may_accept_soon(&sqlx::Error::PoolClosed));
    }
}
