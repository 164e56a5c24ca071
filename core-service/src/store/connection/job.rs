//! Work on a connection, and the caller that waits for it.

use futures_util::future::BoxFuture;
use petstore_telemetry::traces::Current;
use sea_orm::DbErr;
use tokio::{sync::oneshot, time::Instant};

use super::{Observer, session::Session};

/// Mode in which the statements of a job are committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Each statement separately.
    Statements,
    /// All statements together, in a transaction around the job.
    Transaction,
}

/// A job whose result type only its caller knows.
pub(super) struct Job {
    pub(super) work: Box<dyn Work>,
    /// Time at which its caller began to wait.
    pub(super) submitted_at: Instant,
}

/// A [`TypedJob`] of any result.
pub(super) trait Work: Send {
    /// Returns `true` if a caller still waits.
    fn is_awaited(&self) -> bool;

    /// Does the work. The session records whether it is usable afterwards.
    fn run<'j>(&'j mut self, session: &'j mut Session) -> BoxFuture<'j, ()>;

    /// Sets the result of work that was not begun, or not finished.
    fn fail(&mut self, error: DbErr);

    /// Sends the result to the caller.
    fn answer(self: Box<Self>);
}

impl Job {
    pub(super) fn new(work: Box<dyn Work>) -> Self {
        Self { work, submitted_at: Instant::now() }
    }
}

/// A job with the types of its result, which [`Job`] erases.
pub(super) struct TypedJob<F, T, E> {
    kind: Kind,
    observer: Option<Observer>,
    work: Option<F>,
    result: Option<Result<T, E>>,
    answer: oneshot::Sender<Result<T, E>>,
    /// Span of the caller, which encloses the statements.
    span: Current,
}

impl<F, T, E> TypedJob<F, T, E> {
    pub(super) fn new(
        kind: Kind,
        observer: Option<Observer>,
        work: F,
        answer: oneshot::Sender<Result<T, E>>,
    ) -> Self {
        Self { kind, observer, work: Some(work), result: None, answer, span: Current::take() }
    }
}

impl<F, T, E> Work for TypedJob<F, T, E>
where
    T: Send + 'static,
    E: From<DbErr> + Send + 'static,
    F: for<'c> FnOnce(&'c Session) -> BoxFuture<'c, Result<T, E>> + Send + 'static,
{
    fn is_awaited(&self) -> bool {
        !self.answer.is_closed()
    }

    fn run<'j>(&'j mut self, session: &'j mut Session) -> BoxFuture<'j, ()> {
        session.begin_job(self.observer.take());
        let Self { kind, work, result, span, .. } = self;
        Box::pin(span.within(async move {
            if let Some(work) = work.take() {
                let is_transaction = *kind == Kind::Transaction;
                *result = Some(if is_transaction {
                    in_transaction(session, work).await
                } else {
                    work(session).await
                });
            }
        }))
    }

    fn fail(&mut self, error: DbErr) {
        self.result = Some(Err(error.into()));
    }

    fn answer(self: Box<Self>) {
        let Self { result, answer, .. } = *self;
        if let Some(result) = result {
            let _ = answer.send(result); // the caller has given up
        }
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
