//! A batch that was sent.

use std::{
    future::poll_fn,
    pin::pin,
    sync::Arc,
    task::{Context, Poll},
};

use petstore_proto::internal::v1::{Answer, answer::Outcome};
use tokio::sync::oneshot;
use tonic::{Code, Status};

use super::{Batcher, Reply};

/// Callers that wait for the answers of a batch.
#[derive(Debug)]
pub(super) struct UnderWay {
    batcher: Arc<Batcher>,
    /// Callers by the position of their call in the batch; `None` once a call is answered or its caller has
    /// given up.
    callers: Vec<Option<oneshot::Sender<Reply>>>,
    /// Calls that are not answered, including those whose callers have given up.
    unanswered: usize,
    /// Position before which no caller waits any more.
    first: usize,
    /// `true` if a caller has given up.
    is_given_up: bool,
}

impl UnderWay {
    pub(super) fn new(batcher: Arc<Batcher>, callers: Vec<oneshot::Sender<Reply>>) -> Self {
        let callers: Vec<_> = callers.into_iter().map(Some).collect();
        Self { batcher, unanswered: callers.len(), callers, first: 0, is_given_up: false }
    }

    /// Delivers answers to their callers.
    pub(super) fn answer(&mut self, answers: Vec<Answer>) {
        let answered = answers.len().min(self.unanswered);
        for Answer { call, outcome } in answers {
            let caller = usize::try_from(call).ok().and_then(|place| self.callers.get_mut(place)?.take());
            if let Some(caller) = caller {
                let _ = caller.send(reply(outcome)); // an error: the caller has given up
            }
        }
        self.settle(answered);
    }

    /// Fails the calls that are still unanswered, with the reason why no more answers come.
    pub(super) fn end(&mut self, ended: Result<(), Status>) {
        if self.unanswered == 0 {
            return;
        }
        let failure = match ended {
            Err(status) => status,
            Ok(()) => Status::internal("a call of a batch was not answered"),
        };
        for caller in self.callers.iter_mut().filter_map(Option::take) {
            let _ = caller.send(Err(failure.clone()));
        }
        self.settle(self.unanswered);
    }

    fn settle(&mut self, answered: usize) {
        self.unanswered -= answered;
        self.batcher.change(|queue| queue.under_way -= answered);
    }

    /// Returns the future's output, or `None` if every caller has given up before it is ready.
    pub(super) async fn unless_abandoned<F: Future>(&mut self, work: F) -> Option<F::Output> {
        let mut work = pin!(work);
        poll_fn(|context| match work.as_mut().poll(context) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending => self.poll_abandoned(context).map(|()| None),
        })
        .await
    }

    /// Polls until every caller without an answer has given up. Watching one caller that waits is enough.
    fn poll_abandoned(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while let Some(place) = self.callers.get_mut(self.first) {
            if let Some(caller) = place {
                match caller.poll_closed(context) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(()) => self.is_given_up = true,
                }
                *place = None;
            }
            self.first += 1;
        }
        if self.is_given_up { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.settle(self.unanswered);
    }
}

/// Returns the result that an answer in a batch stands for.
pub(in super::super) fn reply(outcome: Option<Outcome>) -> Reply {
    match outcome {
        Some(Outcome::Failure(failure)) => {
            Err(Status::with_details(Code::from_i32(failure.code), failure.message, failure.details.into()))
        }
        Some(outcome) => Ok(outcome),
        None => Err(Status::internal("the core answered in a way that this gateway does not know")),
    }
}
