//! Deadlines of calls to the core, and retries of calls whose answer was lost.

use std::{
    future::Future,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use tokio::time::{Instant, sleep, timeout};
use tonic::{ConnectError, Request, Response, Status, TimeoutExpired};

use super::{
    breaker::CoreNotAnswering,
    cores::LostCore,
    transport::{failure_text, is_caused_by, is_transport_failure},
};

/// Budget of retries: a fifth of the calls may be repeated, so that an outage does not double the load. A few
/// more are allowed at first, and the budget never exceeds one burst.
#[derive(Debug)]
pub struct RetryBudget {
    /// Budget in tenths of a retry.
    tenths: AtomicU32,
}

const PER_RETRY: u32 = 10;
const MOST: u32 = 100 * PER_RETRY;

/// The budget of the first calls.
impl Default for RetryBudget {
    fn default() -> Self {
        Self { tenths: AtomicU32::new(3 * PER_RETRY) }
    }
}

/// Makes a call. It carries the deadline (`grpc-timeout`), so that the core stops working when the gateway
/// has given up.
///
/// # Errors
/// The status of the core, or `DEADLINE_EXCEEDED`.
pub async fn call_within<M, T, F>(
    deadline: Duration,
    message: M,
    rpc: impl FnOnce(Request<M>) -> F,
) -> Result<T, Status>
where
    F: Future<Output = Result<Response<T>, Status>>,
{
    let mut request = Request::new(message);
    request.set_timeout(deadline);
    let answer = timeout(deadline, rpc(request)).await;
    answer.unwrap_or_else(|_| Err(Status::deadline_exceeded("no answer in time"))).map(Response::into_inner)
}

/// Makes the attempt, and a second one if the connection broke after the request was sent. Each attempt is
/// passed the remaining time. Only for idempotent calls.
///
/// # Errors
/// The status of the last attempt.
pub async fn retry_once<T, F>(
    budget: &RetryBudget,
    deadline: Instant,
    attempt: impl Fn(Duration) -> F,
) -> Result<T, Status>
where
    F: Future<Output = Result<T, Status>>,
{
    let earned = |tenths: u32| (tenths < MOST).then(|| tenths.saturating_add(2).min(MOST));
    // A call earns a fifth of a retry. An error: the budget is full.
    let _ = budget.tenths.fetch_update(Ordering::Relaxed, Ordering::Relaxed, earned);
    let answer = attempt(deadline.saturating_duration_since(Instant::now())).await;
    match answer {
        Err(status) if was_lost(&status) => {
            // Random, so that gateways that lost the same core do not return all at once.
            let pause = Duration::from_millis(rand::random_range(25..=75));
            let left = deadline.saturating_duration_since(Instant::now() + pause);
            let spend = |tenths: u32| tenths.checked_sub(PER_RETRY);
            if left.is_zero()
                || budget.tenths.fetch_update(Ordering::Relaxed, Ordering::Relaxed, spend).is_err()
            {
                return Err(status);
            }
            tracing::debug!(error = failure_text(&status), "calling the core once more");
            sleep(pause).await;
            attempt(left).await
        }
        answer => answer,
    }
}

/// Returns `true` if the answer was lost. There is no retry if the core cannot be reached (the request was
/// not sent, and the core will not be back within milliseconds), after a timeout, or while the breaker is
/// open. But there is one if another core may answer.
fn was_lost(status: &Status) -> bool {
    let may_another_answer = is_caused_by::<LostCore>(status) && !is_caused_by::<TimeoutExpired>(status);
    may_another_answer
        || is_transport_failure(status)
            && !is_caused_by::<ConnectError>(status)
            && !is_caused_by::<TimeoutExpired>(status)
            && !is_caused_by::<CoreNotAnswering>(status)
}

#[cfg(test)]
mod tests {
    use std::{io, sync::Mutex};

    use super::*;

    fn cut() -> Status {
        Status::from_error(io::Error::from(io::ErrorKind::ConnectionReset).into())
    }

    async fn ask(budget: &RetryBudget, answers: Vec<Result<u8, Status>>) -> (Result<u8, Status>, usize) {
        let total = answers.len();
        let answers = Mutex::new(answers.into_iter());
        let deadline = Instant::now() + Duration::from_secs(1);
        let answer = retry_once(budget, deadline, |_| {
            let next = answers.lock().unwrap().next().unwrap();
            async move { next }
        })
        .await;
        let left = answers.lock().unwrap().len();
        (answer, total - left)
    }

    #[tokio::test]
    async fn only_a_lost_answer_is_retried() {
        let budget = RetryBudget::default();
        let (answer, asked) = ask(&budget, vec![Err(cut()), Ok(7)]).await;
        assert_eq!((answer.unwrap(), asked), (7, 2));
        let (answer, asked) = ask(&budget, vec![Err(cut()), Err(cut()), Ok(7)]).await;
        assert!(answer.is_err() && asked == 2);
        let away =
            Status::from_error(ConnectError(io::Error::from(io::ErrorKind::ConnectionRefused).into()).into());
        let late = Status::from_error(TimeoutExpired(()).into());
        let hangs = Status::from_error(CoreNotAnswering.into());
        for refusal in [Status::unavailable("said by the core"), Status::not_found("no"), away, late, hangs] {
            let (answer, asked) = ask(&budget, vec![Err(refusal), Ok(7)]).await;
            assert!(answer.is_err() && asked == 1);
        }
    }

    #[tokio::test]
    async fn no_attempt_begins_after_the_deadline() {
        let attempts = Mutex::new(0);
        let answer: Result<(), _> = retry_once(&RetryBudget::default(), Instant::now(), |_| {
            *attempts.lock().unwrap() += 1;
            async { Err(cut()) }
        })
        .await;
        assert!(answer.is_err());
        assert_eq!(*attempts.lock().unwrap(), 1);
    }

    #[tokio::test]
    async fn a_fifth_of_the_calls_may_be_retried() {
        let budget = RetryBudget::default();
        let mut asked = 0;
        for _ in 0..100 {
            asked += ask(&budget, vec![Err(cut()), Err(cut())]).await.1;
        }
        assert_eq!(asked, 100 + 3 + 20);
    }
}
