//! The task that owns a connection.

use std::{collections::VecDeque, mem, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt;
use parking_lot::Mutex;
use sea_orm::{ConnAcquireErr, DbErr, RuntimeErr, sqlx};
use tokio::{
    sync::{Notify, oneshot},
    time::{self, Instant},
};

use crate::fault;

use super::{
    ACQUIRE_TIMEOUT, Queue, Settings,
    queue::{Job, Next},
    session::{Driver, Session},
};

/// Time after which an owner that is still connecting asks other groups for a connection. Most servers that
/// are far away or busy have accepted one by then, and a job that waits is still done in time.
const SLOW: Duration = Duration::from_millis(500);
/// Interval at which an owner without a connection looks whether it is to ask.
const LOOK: Duration = Duration::from_millis(50);
/// Longest pause between two attempts to connect.
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// State shared by the owners of connections to one database.
pub(super) struct Shared {
    pub(super) settings: Arc<Settings>,
    pub(super) queue: Arc<Queue>,
    pub(super) server: Arc<DatabaseServer>,
    /// One more reference for each open connection.
    open: Arc<()>,
    /// One more reference for each connection that does a job.
    busy: Arc<()>,
    /// Reason for which the last attempt to connect failed, until one succeeds.
    failure: Mutex<Option<String>>,
    /// Held by the owner that asks other groups for a connection.
    asking: tokio::sync::Mutex<()>,
}

/// A connection that is handed over, and the time at which it was opened.
type Given = (Driver, Instant);

impl Shared {
    pub(super) fn new(settings: Settings, server: Arc<DatabaseServer>) -> Self {
        let (queue, open, busy) = (Arc::default(), Arc::default(), Arc::default());
        let (settings, failure, asking) = (settings.into(), Mutex::default(), tokio::sync::Mutex::default());
        Self { settings, queue, server, open, busy, failure, asking }
    }

    /// Returns the numbers of idle and of busy connections.
    pub(super) fn usage(&self) -> (usize, usize) {
        let busy = Arc::strong_count(&self.busy) - 1;
        ((Arc::strong_count(&self.open) - 1).saturating_sub(busy), busy)
    }

    /// Returns the error of a call that got no connection in time.
    pub(super) fn no_connection(&self) -> DbErr {
        match &*self.failure.lock() {
            Some(reason) => {
                DbErr::Conn(RuntimeErr::Internal(format!("no connection within 0.9 s: {reason}")))
            }
            None => DbErr::ConnectionAcquire(ConnAcquireErr::Timeout),
        }
    }

    /// Returns a connection until the deadline: a new one, or one of another group, which runs on with fewer.
    async fn connect(&self, deadline: Instant) -> Result<Given, DbErr> {
        let connected = async {
            tokio::select! {
                new = self.new_connection() => new,
                given = self.connection_of_others() => Ok(given),
            }
        };
        time::timeout_at(deadline, connected).await.unwrap_or_else(|_| Err(self.no_connection()))
    }

    /// Returns a new connection. Retries where that may help.
    async fn new_connection(&self) -> Result<Given, DbErr> {
        let mut pause = Duration::from_millis(10);
        if let Some(since_full) = self.server.since_full() {
            time::sleep(LONGEST_PAUSE.saturating_sub(since_full)).await; // others hand over sooner
        }
        loop {
            if !self.settings.health.is_file_in_place().await {
                let error = std::io::Error::other("the store's file was replaced or removed");
                return Err(DbErr::Conn(RuntimeErr::SqlxError(sqlx::Error::from(error).into())));
            }
            match self.settings.target.connect().await {
                Ok(driver) => {
                    *self.failure.lock() = None;
                    return Ok((driver, Instant::now()));
                }
                Err(error) if may_accept_soon(&error) => {
                    if fault::is_full(&error) {
                        self.server.state.lock().full_at = Some(Instant::now());
                        pause = LONGEST_PAUSE; // as above
                    }
                    *self.failure.lock() = Some(error.to_string());
                }
                Err(error) => return Err(DbErr::Conn(RuntimeErr::SqlxError(error.into()))),
            }
            time::sleep(pause).await;
            pause = LONGEST_PAUSE.min(pause * 2);
        }
    }

    /// Returns a connection that another group has handed over, while this one has none: soon if the server
    /// was full within the last second. One that is too slow is taken for full: so is a pooler that lets
    /// connections wait.
    async fn connection_of_others(&self) -> Given {
        let started_at = Instant::now();
        while self.server.since_full().is_none_or(|since_full| since_full >= Duration::from_secs(1)) {
            if started_at.elapsed() >= SLOW {
                self.server.state.lock().full_at = Some(Instant::now());
            } else {
                time::sleep(LOOK).await;
            }
        }
        let _asking = self.asking.lock().await;
        loop {
            if Arc::strong_count(&self.open) > 1 {
                time::sleep(LOOK).await;
            } else if let Ok((mut driver, opened_at)) = self.server.ask_for_connection().await
                && self.settings.target.set_up(&mut driver).await.is_ok()
            {
                *self.failure.lock() = None;
                return (driver, opened_at);
            }
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
    _open: Arc<()>,
}

impl Owner {
    /// Answers the last job after this owner has queued for the next one, so that a caller that returns at
    /// once finds it idle.
    async fn next_job(&mut self) -> Option<Job> {
        if self.done.is_some() {
            self.hand_over();
        }
        let next = self.shared.queue.next(self.connection.is_some());
        if let Some(done) = self.done.take() {
            done.work.answer();
        }
        let mut job = match next {
            Next::Do(job) => return Some(job),
            Next::Wait(job) => job,
            Next::End => return None,
        };
        while let Some(connection) = &self.connection {
            let end = self.expires_at(connection);
            tokio::select! {
                biased;
                job = &mut job => return job.ok(),
                () = self.shared.server.asked.notified() => self.hand_over(),
                () = time::sleep_until(end.unwrap_or_else(Instant::now)), if end.is_some() => {
                    self.close_in_background();
                }
            }
        }
        job.await.ok()
    }

    /// Hands the connection over to a group that has none, if there is one.
    fn hand_over(&mut self) {
        if self.connection.is_some()
            && let Some(asking) = self.shared.server.next_asking()
            && let Some(connection) = self.connection.take()
        {
            let (driver, used_at) = (connection.session.driver.into_inner(), connection.used_at);
            if let Err(given) = asking.send((driver, connection.opened_at)) {
                // The other one has just given up.
                self.connection =
                    Some(OpenConnection { used_at, ..OpenConnection::new(given, &self.shared) });
            }
        }
    }

    /// Returns the connection that is kept, if it is usable.
    async fn usable_connection(&mut self, deadline: Instant) -> Option<OpenConnection> {
        let mut connection = self.connection.take()?;
        if self.shared.server.is_replaced(connection.opened_at) {
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
            job.work.fail(self.shared.no_connection());
            self.done = Some(job);
            return;
        }
        let shared = Arc::clone(&self.shared);
        let Some(claim) = shared.queue.claim(job) else { return };
        match shared.connect(deadline).await {
            Ok(given) => self.connection = Some(OpenConnection::new(given, &shared)),
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
        let _busy = Arc::clone(&self.shared.busy);
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
            self.shared.server.record_failure();
            if let Some(failure) = failure {
                job.work.fail(failure);
            }
            return;
        }
        if *connection.session.is_read_only.get_mut() {
            self.shared.server.record_read_only();
        } else if self.shared.settings.is_for_writes && !*connection.session.has_failed.get_mut() {
            self.shared.server.record_write();
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
        connection.used_at.elapsed() >= lifetimes.ping_after
            || self.shared.server.has_failed_since(connection.used_at)
    }
}

impl OpenConnection {
    fn new((driver, opened_at): Given, shared: &Arc<Shared>) -> Self {
        Self {
            session: Session::new(driver, Arc::clone(&shared.settings)),
            opened_at,
            used_at: Instant::now(),
            _open: Arc::clone(&shared.open),
        }
    }

    async fn answers(&mut self, deadline: Instant) -> bool {
        matches!(time::timeout_at(deadline, self.session.driver.get_mut().ping()).await, Ok(Ok(())))
    }

    /// Closes the connection as the protocol requires.
    async fn close(self) {
        let closed = time::timeout(Duration::from_secs(1), self.session.driver.into_inner().close()).await;
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
        error if fault::is_full(error) => true,
        sqlx::Error::Database(error) => error.is_transient_in_connect_phase(),
        _ => false,
    }
}

/// State of a database server, as seen by all groups of connections to it.
#[derive(Default)]
pub(super) struct DatabaseServer {
    state: Mutex<ServerState>,
    /// Wakes an idle owner when a group asks.
    asked: Notify,
}

#[derive(Default)]
struct ServerState {
    /// Time of the last connection failure. Its cause (a restart, a failover, an administrator) probably cut
    /// all other connections too. Every connection that was last used before it is pinged before it is used
    /// again, so that a retry does not get the next dead one.
    failed_at: Option<Instant>,
    /// `true` if the server refused the last write because it takes none.
    is_read_only: bool,
    /// Time at which another server may have replaced a read-only one. Connections that were opened before
    /// are closed, because the old server may run on.
    replaced_at: Option<Instant>,
    /// Time at which the server last had no connection to spare.
    full_at: Option<Instant>,
    /// Groups that have no connection, in order of their asking.
    askers: VecDeque<oneshot::Sender<Given>>,
}

impl DatabaseServer {
    /// Asks for a connection, which arrives when another group has done a job, or is idle.
    fn ask_for_connection(&self) -> oneshot::Receiver<Given> {
        let (give, given) = oneshot::channel();
        self.state.lock().askers.push_back(give);
        self.asked.notify_one();
        given
    }

    /// Returns the time since the server had no connection to spare. `None` if it never was full.
    fn since_full(&self) -> Option<Duration> {
        self.state.lock().full_at.map(|at| at.elapsed())
    }

    /// Returns the group that has asked first, if one still waits.
    fn next_asking(&self) -> Option<oneshot::Sender<Given>> {
        let askers = &mut self.state.lock().askers;
        askers.retain(|asker| !asker.is_closed());
        askers.pop_front()
    }

    /// Records that a connection has failed just now.
    pub(super) fn record_failure(&self) {
        self.state.lock().failed_at = Some(Instant::now());
    }

    /// Returns `true` if a connection has failed since this one was last used.
    fn has_failed_since(&self, used_at: Instant) -> bool {
        self.state.lock().failed_at.is_some_and(|failed_at| used_at <= failed_at)
    }

    /// Records that the server takes no writes. While this lasts, connections are opened again once a second
    /// at most.
    fn record_read_only(&self) {
        let mut state = self.state.lock();
        state.is_read_only = true;
        if state.replaced_at.is_none_or(|at| at.elapsed() >= Duration::from_secs(1)) {
            state.replaced_at = Some(Instant::now());
        }
    }

    /// Records that the server has taken a write. If the last write was refused, it may be another server
    /// than that of the connections that read.
    fn record_write(&self) {
        let mut state = self.state.lock();
        if mem::take(&mut state.is_read_only) {
            state.replaced_at = Some(Instant::now());
        }
    }

    /// Returns `true` if a connection that was opened then may lead to a server that was replaced.
    fn is_replaced(&self, opened_at: Instant) -> bool {
        self.state.lock().replaced_at.is_some_and(|replaced_at| opened_at <= replaced_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_opened_again_once_a_second_while_the_server_is_read_only_and_once_more_after() {
        let ago = |millis| Instant::now().checked_sub(Duration::from_millis(millis)).unwrap();
        let server = DatabaseServer::default();
        server.record_write();
        assert!(!server.is_replaced(ago(0)), "no write was refused");
        for (replaced, is_again) in [(None, true), (Some(900), false), (Some(1_100), true)] {
            server.state.lock().replaced_at = replaced.map(ago);
            let opened_at = ago(50);
            server.record_read_only();
            assert_eq!(
                server.is_replaced(opened_at),
                is_again,
                "{replaced:?} ms after they were opened again"
            );
        }
        let opened_at = Instant::now();
        server.record_write();
        assert!(server.is_replaced(opened_at), "the first write may be to another server");
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
