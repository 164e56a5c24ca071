//! Calls on behalf of accounts: their deadline and the second attempt.

use std::{fmt, future::Future, pin::pin, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderName, HeaderValue};
use petstore_proto::internal::v1::{Answer, Call, answer::Outcome, call::Method};
use tokio::time::{Instant, timeout_at};
use tonic::{Status, metadata::MetadataValue};

use super::{
    batch::{CallQueue, Reply, reply},
    breaker::CoreBreaker,
    permits::{Overloaded, Permits},
    retry::{RetryBudget, retry_once},
    traced::{self, TracedTransport},
    transport::{CoreTransport, failure_text, is_transport_failure},
};

/// Time that a call to the core may take.
const DEADLINE: Duration = Duration::from_secs(5);

/// Makes calls to a core in the same process, without a network message.
pub type InProcessCalls = Arc<dyn Fn(Call) -> BoxFuture<'static, Answer> + Send + Sync>;

/// Unary method that may be called in a batch. It must be idempotent.
pub trait BatchedMethod {
    /// Message to the method.
    type Request: Clone + Send + 'static;
    /// Answer of the method.
    type Response: Send;
    /// `package.Service/Method`.
    const NAME: &'static str;
    /// `true` if the method changes something.
    const IS_WRITE: bool;
    /// Returns the message as a batch carries it.
    fn into_call(request: Self::Request) -> Method;
    /// Returns the answer from a batch; `None` if it belongs to another method.
    fn response(outcome: Outcome) -> Option<Self::Response>;
}

/// Reason why a call has no answer.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The call was not made, because it would have waited too long for others.
    #[error("too many calls wait for the core")]
    Overloaded,
    /// The deadline passed.
    #[error("the core did not answer in time")]
    DeadlineExceeded,
    /// The core refused the call or failed, or its answer was lost.
    #[error("{}", failure_text(.0))]
    Status(#[source] Status),
}

/// Client of the core for calls on behalf of accounts.
pub struct CoreClient {
    transport: TracedTransport,
    route: Route,
    reads: Arc<Permits>,
    writes: Arc<Permits>,
    retries: RetryBudget,
}

/// Route of clients' calls to the core.
enum Route {
    InProcess(InProcessCalls),
    Batches(Arc<CallQueue>),
}

impl CoreClient {
    /// Creates a client of a core. If it is `in_process`, frequent calls are made directly, and only the
    /// others go over `transport`.
    #[must_use]
    pub fn new(transport: CoreTransport, in_process: Option<InProcessCalls>) -> Self {
        let traced = TracedTransport::from(transport);
        let route = in_process.map_or_else(
            || Route::Batches(CallQueue::new(traced.untraced(), Arc::clone(traced.breaker()))),
            Route::InProcess,
        );
        Self {
            transport: traced,
            route,
            reads: Arc::default(),
            writes: Arc::default(),
            retries: RetryBudget::default(),
        }
    }

    /// Returns the transport, for clients of other services.
    #[must_use]
    pub const fn transport(&self) -> &TracedTransport {
        &self.transport
    }

    /// Returns the breaker, which decides if the core is called at all.
    #[must_use]
    pub const fn breaker(&self) -> &Arc<CoreBreaker> {
        self.transport.breaker()
    }

    /// Returns the budget of second attempts.
    #[must_use]
    pub const fn retries(&self) -> &RetryBudget {
        &self.retries
    }

    /// Calls the core on behalf of an account, in a batch with other waiting calls. Otherwise behaves as
    /// [`call_alone`].
    ///
    /// # Errors
    /// [`CallError`], also if the account has too many calls.
    pub async fn call<M: BatchedMethod>(
        &self,
        request: M::Request,
        account_id: i64,
        request_id: &HeaderValue,
    ) -> Result<M::Response, CallError> {
        let deadline = Instant::now() + DEADLINE;
        let permits = if M::IS_WRITE { &self.writes } else { &self.reads };
        let permit = permits.acquire(account_id).map_err(|Overloaded| CallError::Overloaded)?;
        let attempts = pin!(async {
            let _permit = permit.await;
            let attempt = |_| self.attempt::<M>(request.clone(), request_id, deadline);
            retry_once(&self.retries, deadline, attempt).await
        });
        within(deadline, attempts).await
    }

    async fn attempt<M: BatchedMethod>(
        &self,
        request: M::Request,
        request_id: &HeaderValue,
        deadline: Instant,
    ) -> Result<M::Response, Status> {
        let reply = {
            let span = traced::span(M::NAME);
            let mut trace = HeaderMap::new();
            span.write(&mut trace);
            let call = Call {
                request_id: request_id.to_str().unwrap_or_default().to_owned(),
                traceparent: traceparent(&trace),
                timeout_ms: 0,
                method: Some(M::into_call(request)),
            };
            let reply = self.route.call(call, deadline).await;
            match &reply {
                Ok(_) => traced::describe_status(&span, 0),
                Err(status) if is_transport_failure(status) => span.fail("transport error"),
                Err(status) => traced::describe_status(&span, status.code().into()),
            }
            reply
        };
        M::response(reply?).ok_or_else(|| Status::internal("the core answered another method"))
    }
}

impl Route {
    async fn call(&self, call: Call, deadline: Instant) -> Reply {
        match self {
            Self::Batches(batches) => batches.call(call, deadline).await,
            // No queue lies between here and the core.
            Self::InProcess(core) => {
                let left = deadline.saturating_duration_since(Instant::now()).as_millis();
                let timeout_ms = u32::try_from(left).unwrap_or(u32::MAX).max(1);
                reply(core(Call { timeout_ms, ..call }).await.outcome)
            }
        }
    }
}

impl fmt::Debug for CoreClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CoreClient").field("breaker", self.breaker()).finish_non_exhaustive()
    }
}

fn traceparent(trace: &HeaderMap) -> String {
    let value =
        trace.get(const { HeaderName::from_static("traceparent") }).and_then(|value| value.to_str().ok());
    value.unwrap_or_default().to_owned()
}

/// Calls the core outside of batches, with the name of the request that the call serves. The deadline holds
/// even if the core does not keep to it. If the answer is lost, the call is made once more, so `rpc` must be
/// idempotent.
///
/// # Errors
/// [`CallError`], which is not logged here.
pub async fn call_alone<M, T, F>(
    message: M,
    request_id: &HeaderValue,
    retries: &RetryBudget,
    rpc: impl Fn(tonic::Request<M>) -> F,
) -> Result<T, CallError>
where
    M: Clone,
    F: Future<Output = Result<tonic::Response<T>, Status>>,
{
    let deadline = Instant::now() + DEADLINE;
    let attempts = retry_once(retries, deadline, |left| rpc(request(message.clone(), request_id, left)));
    within(deadline, attempts).await.map(tonic::Response::into_inner)
}

async fn within<T>(
    deadline: Instant,
    attempts: impl Future<Output = Result<T, Status>>,
) -> Result<T, CallError> {
    timeout_at(deadline, attempts).await.map_err(|_| CallError::DeadlineExceeded)?.map_err(CallError::Status)
}

/// Returns a request with the remaining time and the request id.
fn request<M>(message: M, request_id: &HeaderValue, left: Duration) -> tonic::Request<M> {
    let mut request = tonic::Request::new(message);
    request.set_timeout(left);
    if let Ok(request_id) = MetadataValue::try_from(request_id.as_bytes()) {
        request.metadata_mut().insert("x-request-id", request_id);
    }
    request
}

#[cfg(test)]
mod tests {
    use std::{
        io,
        sync::{
            Mutex,
            atomic::{AtomicUsize, Ordering},
        },
    };

    use futures_util::{FutureExt, future::join_all};
    use petstore_proto::v1::{GetPetRequest, GetPetResponse};
    use tonic::Response;
    use tower::{BoxError, service_fn};

    use super::*;
    use crate::{permits::MAX_OF_ACCOUNT, testing::Get};

    /// Name of the request that calls serve.
    static REQUEST: HeaderValue = HeaderValue::from_static("abcdefgh");

    #[tokio::test]
    async fn the_calls_of_an_account_in_flight_are_bounded() {
        let counts = Arc::new((AtomicUsize::new(0), AtomicUsize::new(0)));
        let (in_flight, most) = (Arc::clone(&counts), Arc::clone(&counts));
        let calls: InProcessCalls = Arc::new(move |_| {
            let counts = Arc::clone(&in_flight);
            async move {
                let (in_flight, most) = &*counts;
                most.fetch_max(in_flight.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                tokio::task::yield_now().await;
                in_flight.fetch_sub(1, Ordering::Relaxed);
                Answer { call: 0, outcome: Some(Outcome::GetPet(GetPetResponse::default())) }
            }
            .boxed()
        });
        let away = service_fn(async |_: http::Request<tonic::body::Body>| {
            Err::<http::Response<tonic::body::Body>, BoxError>("no core here".into())
        });
        let client = CoreClient::new(CoreTransport::new(away), Some(calls));
        let call = |_| client.call::<Get>(GetPetRequest { pet_id: 1 }, 1, &REQUEST);
        let answers = join_all((0..1_000).map(call)).await;
        assert!(answers.iter().all(Result::is_ok));
        assert_eq!(most.1.load(Ordering::Relaxed), MAX_OF_ACCOUNT);
    }

    #[tokio::test]
    async fn a_call_in_the_process_carries_the_remaining_time() {
        let timeouts = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&timeouts);
        let route = Route::InProcess(Arc::new(move |call: Call| {
            seen.lock().unwrap().push(call.timeout_ms);
            async { Answer { call: 0, outcome: Some(Outcome::GetPet(GetPetResponse::default())) } }.boxed()
        }));
        for left in [Duration::ZERO, Duration::from_secs(30)] {
            route.call(Call::default(), Instant::now() + left).await.unwrap();
        }
        assert!(matches!(timeouts.lock().unwrap()[..], [1, 25_001..=30_000]), "{timeouts:?}");
    }

    #[tokio::test]
    async fn an_attempt_carries_the_remaining_time_and_the_request_id() {
        let seen = Mutex::new(Vec::new());
        let answer: Result<(), _> = call_alone((), &REQUEST, &RetryBudget::default(), |request| {
            let field = |name| request.metadata().get(name).unwrap().to_str().unwrap().to_owned();
            assert_eq!(field("x-request-id"), "abcdefgh");
            let first = seen.lock().unwrap().is_empty();
            seen.lock().unwrap().push(field("grpc-timeout"));
            async move {
                tokio::time::sleep(Duration::from_millis(10)).await;
                let cut = io::Error::from(io::ErrorKind::ConnectionReset);
                if first { Err(Status::from_error(cut.into())) } else { Ok(Response::new(())) }
            }
        })
        .await;
        answer.unwrap();
        let micros = |field: &String| field.strip_suffix('u').unwrap().parse::<u64>().unwrap();
        let left: Vec<_> = seen.lock().unwrap().iter().map(micros).collect();
        assert!(
            matches!(left[..], [first, second] if second + 10_000 < first && first <= 5_000_000),
            "{left:?}"
        );
    }
}
