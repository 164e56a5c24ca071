//! The task that owns a connection.

use std::{
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::FutureExt;
use sea_orm::{ConnAcquireErr, DbErr, RuntimeErr, sqlx};
use tokio::time::{self, Instant};

use super::{
    ACQUIRE_TIMEOUT, Queue, Settings, Suspicion, driver::Driver, job::Job, queue::Next, session::Session,
};

/// Between attempts to connect to a server that is about to start: doubled each time, up to the second one.
const PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(200));
/// How long a connection may take to be closed that is in order.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// What the owners of connections to one database have in common.
pub(super) struct Shared {
    pub(super) settings: Settings,
    pub(super) queue: Arc<Queue>,
    pub(super) suspicion: Suspicion,
    open: AtomicUsize,
    at_work: AtomicUsize,
}

impl Shared {
    pub(super) fn new(settings: Settings) -> Self {
        Self {
            settings,
            queue: Arc::default(),
            suspicion: Suspicion::none(),
            open: AtomicUsize::new(0),
            at_work: AtomicUsize::new(0),
        }
    }

    /// Connections that are idle, and those at work.
    pub(super) fn usage(&self) -> (usize, usize) {
        let at_work = self.at_work.load(Ordering::Relaxed);
        (self.open.load(Ordering::Relaxed).saturating_sub(at_work), at_work)
    }

    /// A new connection. Where it is worth trying again, that is done until the deadline.
    async fn make_connection(&self, deadline: Instant) -> Result<Driver, DbErr> {
        let (mut pause, longest_pause) = PAUSES;
        loop {
            match time::timeout_at(deadline, self.settings.target.connect()).await {
                Ok(Ok(driver)) => return Ok(driver),
                Ok(Err(error)) if is_about_to_start(&error) => {}
                Ok(Err(error)) => return Err(DbErr::Conn(RuntimeErr::SqlxError(error.into()))),
                Err(_) => return Err(DbErr::ConnectionAcquire(ConnAcquireErr::Timeout)),
            }
            time::sleep(pause).await;
            pause = longest_pause.min(pause * 2);
        }
    }
}

/// Does one job after the other until the queue is closed.
pub(super) async fn work(shared: Arc<Shared>) {
    let mut owner = Owner { shared, live: None, done: None };
    while let Some(mut job) = owner.next_job().await {
        if !job.is_awaited() {
            continue;
        }
        match owner.connect(job.asked_at + ACQUIRE_TIMEOUT).await {
            Ok(live) if job.is_awaited() => owner.carry_out(&mut job, live).await,
            Ok(live) => owner.live = Some(live),
            Err(error) => job.fail(error),
        }
        owner.done = Some(job);
    }
    if let Some(live) = owner.live.take() {
        live.close().await;
    }
}

struct Owner {
    shared: Arc<Shared>,
    /// In order, and in no transaction.
    live: Option<Live>,
    /// Not yet answered.
    done: Option<Job>,
}

/// A connection that is open. To drop it is to cut it.
struct Live {
    session: Session,
    made_at: Instant,
    used_at: Instant,
    _open: Counted,
}

impl Owner {
    /// Answers the last job once this owner is there for the next one: whoever asks again at once finds it.
    async fn next_job(&mut self) -> Option<Job> {
        let next = self.shared.queue.next(self.live.is_some());
        if let Some(done) = self.done.take() {
            done.answer();
        }
        let mut job = match next {
            Next::Do(job) => return Some(job),
            Next::Wait(job) => job,
            Next::End => return None,
        };
        if let Some(end) = self.live.as_ref().and_then(|live| self.end_of(live)) {
            if let Ok(job) = time::timeout_at(end, &mut job).await {
                return job.ok();
            }
            self.retire();
        }
        job.await.ok()
    }

    /// The connection that is kept, or a new one.
    async fn connect(&mut self, deadline: Instant) -> Result<Live, DbErr> {
        if let Some(mut live) = self.live.take()
            && (!self.is_doubtful(&live) || live.answers(deadline).await)
        {
            return Ok(live);
        }
        let driver = self.shared.make_connection(deadline).await?;
        let now = Instant::now();
        let session = Session::new(driver);
        Ok(Live {
            session,
            made_at: now,
            used_at: now,
            _open: Counted::one(&self.shared, |shared| &shared.open),
        })
    }

    /// Does the job, and keeps the connection if it is in order afterwards. Otherwise, and where the job panics or goes
    /// on for too long, the connection is cut: the database undoes what was not committed.
    async fn carry_out(&mut self, job: &mut Job, mut live: Live) {
        let _at_work = Counted::one(&self.shared, |shared| &shared.at_work);
        let running = AssertUnwindSafe(job.run(&mut live.session)).catch_unwind(); // what panics is not used again
        let failure = match self.shared.settings.longest_job {
            Some(longest) => match time::timeout(longest, running).await {
                Ok(ended) => ended.err().map(|_panic| panicked()),
                Err(_) => Some(DbErr::ConnectionAcquire(ConnAcquireErr::Timeout)),
            },
            None => running.await.err().map(|_panic| panicked()),
        };
        if failure.is_some() || !live.session.is_in_order() {
            self.shared.suspicion.raise();
            if let Some(failure) = failure {
                job.fail(failure);
            }
            return;
        }
        live.used_at = Instant::now();
        let is_old = self.end_of(&live).is_some_and(|end| end <= live.used_at);
        self.live = Some(live);
        if is_old {
            self.retire();
        }
    }

    /// Closes the connection, and does not wait for that.
    fn retire(&mut self) {
        if let Some(live) = self.live.take() {
            tokio::spawn(live.close());
        }
    }

    /// When the connection is no longer kept.
    fn end_of(&self, live: &Live) -> Option<Instant> {
        let lifetimes = self.shared.settings.lifetimes.as_ref()?;
        Some((live.made_at + lifetimes.whole).min(live.used_at + lifetimes.idle))
    }

    /// Whether the connection may have been cut while it was idle.
    fn is_doubtful(&self, live: &Live) -> bool {
        let Some(lifetimes) = &self.shared.settings.lifetimes else { return false };
        let idle_for = live.used_at.elapsed();
        idle_for >= lifetimes.unasked || self.shared.suspicion.covers(idle_for)
    }
}

impl Live {
    async fn answers(&mut self, deadline: Instant) -> bool {
        matches!(time::timeout_at(deadline, self.session.ping()).await, Ok(Ok(())))
    }

    /// Takes leave of the database.
    async fn close(self) {
        let closed = time::timeout(CLOSE_TIMEOUT, self.session.close()).await;
        if let Ok(Err(error)) = closed {
            tracing::debug!(%error, "a connection to the database was not closed in order");
        }
    }
}

/// The panic hook has told where.
fn panicked() -> DbErr {
    DbErr::Custom("work on a connection panicked".into())
}

/// Whether the server is about to start, or to have a connection to spare: soon it may let this one in.
fn is_about_to_start(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(error) => error.kind() == std::io::ErrorKind::ConnectionRefused,
        sqlx::Error::Database(error) => error.is_transient_in_connect_phase(),
        _ => false,
    }
}

/// One more, until it is dropped.
struct Counted {
    shared: Arc<Shared>,
    count: fn(&Shared) -> &AtomicUsize,
}

impl Counted {
    fn one(shared: &Arc<Shared>, count: fn(&Shared) -> &AtomicUsize) -> Self {
        count(shared).fetch_add(1, Ordering::Relaxed);
        Self { shared: Arc::clone(shared), count }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        (self.count)(&self.shared).fetch_sub(1, Ordering::Relaxed);
    }
}
