//! Work whose caller leaves before its end. It continues, so that what it has done is recorded.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::{runtime::Handle, task_local};

task_local! {
    static CALLER_HAS_LEFT: ();
}

/// Returns `true` within work whose caller has left.
pub fn caller_has_left() -> bool {
    CALLER_HAS_LEFT.try_with(|()| ()).is_ok()
}

/// Future of work that runs to its end once it has begun. If it is dropped before, it continues in a task of
/// its own. So the work must end by itself, and its owner bounds how much of it there is.
pub struct ToItsEnd<F: Future<Output: Send> + Send + Unpin + 'static> {
    /// `None` after its end.
    work: Option<F>,
    has_begun: bool,
}

impl<F: Future<Output: Send> + Send + Unpin + 'static> ToItsEnd<F> {
    /// Creates the future of this work.
    pub const fn new(work: F) -> Self {
        Self { work: Some(work), has_begun: false }
    }
}

impl<F: Future<Output: Send> + Send + Unpin + 'static> Future for ToItsEnd<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        self.has_begun = true;
        let Some(work) = &mut self.work else { return Poll::Pending };
        let polled = Pin::new(work).poll(context);
        if polled.is_ready() {
            self.work = None;
        }
        polled
    }
}

impl<F: Future<Output: Send> + Send + Unpin + 'static> Drop for ToItsEnd<F> {
    fn drop(&mut self) {
        let Some(work) = self.work.take().filter(|_| self.has_begun && !std::thread::panicking()) else {
            return;
        };
        // Without a runtime the process is ending.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(CALLER_HAS_LEFT.scope((), work));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::{Notify, oneshot};

    use super::*;

    /// Returns work that waits for the notification and then reports whether its caller had left.
    fn work(
        finish: &Arc<Notify>,
    ) -> (ToItsEnd<Pin<Box<impl Future<Output = ()> + Send + use<>>>>, oneshot::Receiver<bool>) {
        let (finish, (ended, report)) = (Arc::clone(finish), oneshot::channel());
        let work = ToItsEnd::new(Box::pin(async move {
            finish.notified().await;
            let _ = ended.send(caller_has_left());
        }));
        (work, report)
    }

    #[tokio::test]
    async fn work_that_has_begun_ends_although_its_caller_leaves_and_knows_that() {
        let finish = Arc::default();
        let (mut work, report) = work(&finish);
        tokio::select! {
            biased;
            () = &mut work => panic!("nothing has let it finish"),
            () = std::future::ready(()) => {}
        }
        drop(work);
        finish.notify_one();
        assert_eq!(report.await, Ok(true));
    }

    #[tokio::test]
    async fn work_whose_caller_waits_ends_in_its_task() {
        let finish = Arc::default();
        let (work, report) = work(&finish);
        finish.notify_one();
        work.await;
        assert_eq!(report.await, Ok(false));
    }

    #[tokio::test]
    async fn work_that_was_dropped_before_it_began_never_begins() {
        let (work, report) = work(&Arc::default());
        drop(work);
        report.await.unwrap_err();
    }
}
