//! Calls on behalf of accounts: their deadline and the second attempt.

use std::{any::Any, fmt, pin::pin, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderName, HeaderValue, uri::PathAndQuery};
use petstore_proto::{Call, LocalCall, UnaryRequest};
use tokio::time::{Instant, timeout_at};
use tonic::{Status, client::Grpc, metadata::MetadataValue};
use tonic_prost::ProstCodec;

use super::{
    batch::CallQueue,
    breaker::CoreBreaker,
    connect::is_its_own,
    permits::{Overloaded, Permits},
    retry::{RetryBudget, retry_once},
    traced::{self, TracedTransport},
    transport::{CoreTransport, failure_text, is_transport_failure},
};

/// Time that a call to the core may take.
const DEADLINE: Duration = Duration::from_secs(5);

/// Makes calls to a core in the same process, without a network message.
pub type InProcessCalls =
    Arc<dyn for<'a> Fn(LocalCall<'a>) -> BoxFuture<'a, Result<(), Status>> + Send + Sync>;

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
    /// Creates a client of a core. If it is `in_process`, its calls are made directly, and only those of
    /// other clients go over `transport`.
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
    pub const fn transport(&self) -> &TracedTransport {
        &self.transport
    }

    /// Returns the breaker, which decides if the core is called at all.
    pub const fn breaker(&self) -> &Arc<CoreBreaker> {
        self.transport.breaker()
    }

    /// Calls the method of this request on behalf of an account, in a batch with other waiting calls unless
    /// the method is internal. The deadline holds even if the core does not keep to it. If the answer is lost
    /// and the request is idempotent, the call is made once more.
    ///
    /// # Errors
    /// [`CallError`], also if the account has too many calls. It is not logged here.
    pub async fn call<M: UnaryRequest>(
        &self,
        request: M,
        account_id: i64,
        request_id: &HeaderValue,
    ) -> Result<M::Response, CallError> {
        let deadline = Instant::now() + DEADLINE;
        let permits = if M::IS_READ { &self.reads } else { &self.writes };
        let permit = permits.acquire(account_id).map_err(|Overloaded| CallError::Overloaded)?;
        let attempts = pin!(async {
            let _permit = permit.await;
            let attempt = |_| self.attempt(&request, request_id, deadline);
            if request.is_idempotent() {
                retry_once(&self.retries, deadline, attempt).await
            } else {
                attempt(DEADLINE).await
            }
        });
        let answered = timeout_at(deadline, attempts).await;
        answered.map_err(|_| CallError::DeadlineExceeded)?.map_err(CallError::Status)
    }

    async fn attempt<M: UnaryRequest>(
        &self,
        request: &M,
        request_id: &HeaderValue,
        deadline: Instant,
    ) -> Result<M::Response, Status> {
        if matches!(self.route, Route::Batches(_)) && is_its_own(M::PATH) {
            return alone(self.transport.clone(), request.clone(), request_id, deadline).await;
        }
        let span = traced::span(M::PATH);
        let mut trace = HeaderMap::new();
        span.write(&mut trace);
        let answered = match &self.route {
            Route::Batches(batches) => batched(batches, request, request_id, trace, deadline).await,
            Route::InProcess(core) => in_process(core, request, request_id, trace, deadline).await,
        };
        match &answered {
            Ok(_) => traced::describe_status(&span, 0),
            Err(status) if is_transport_failure(status) => span.fail("transport error"),
            Err(status) => traced::describe_status(&span, status.code().into()),
        }
        answered
    }
}

async fn batched<M: UnaryRequest>(
    batches: &Arc<CallQueue>,
    request: &M,
    request_id: &HeaderValue,
    mut trace: HeaderMap,
    deadline: Instant,
) -> Result<M::Response, Status> {
    let call = Call {
        request_id: Some(request_id.clone()),
        traceparent: trace.remove(const { HeaderName::from_static("traceparent") }),
        ..Call::new(request)
    };
    let answer = batches.call(call, deadline).await?;
    let response = answer.response::<M>().and_then(Result::ok);
    response.ok_or_else(|| Status::internal("the core answered in a way that this gateway does not know"))
}

/// Makes a call in this process. No queue lies between here and the core.
async fn in_process<M: UnaryRequest>(
    core: &InProcessCalls,
    request: &M,
    request_id: &HeaderValue,
    trace: HeaderMap,
    deadline: Instant,
) -> Result<M::Response, Status> {
    let (mut request, mut response) = (Some(request.clone()), None::<M::Response>);
    let timeout = deadline.saturating_duration_since(Instant::now());
    let (request, answer): (&mut (dyn Any + Send), &mut (dyn Any + Send)) = (&mut request, &mut response);
    core(LocalCall { request_id, trace, timeout, request, response: answer }).await?;
    response.ok_or_else(|| Status::internal("the core answered another method"))
}

/// Makes a call outside of batches.
async fn alone<M: UnaryRequest>(
    core: TracedTransport,
    message: M,
    request_id: &HeaderValue,
    deadline: Instant,
) -> Result<M::Response, Status> {
    let mut request = tonic::Request::new(message);
    request.set_timeout(deadline.saturating_duration_since(Instant::now()));
    if let Ok(request_id) = MetadataValue::try_from(request_id.as_bytes()) {
        request.metadata_mut().insert("x-request-id", request_id);
    }
    let path = PathAndQuery::try_from(format!("/{}", M::PATH));
    let path = path.map_err(|error| Status::internal(error.to_string()))?;
    let answer = Grpc::new(core).unary(request, path, ProstCodec::default()).await;
    answer.map(tonic::Response::into_inner)
}

impl fmt::Debug for CoreClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CoreClient").field("breaker", self.breaker()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    };

    use futures_util::{FutureExt, future::join_all};
    use petstore_proto::internal::v1::GetUsageRequest;
    use tower::{BoxError, service_fn};

    use super::*;
    use crate::{
        permits::MAX_OF_ACCOUNT,
        testing::{Add, Get, Got},
    };

    /// Name of the request that calls serve.
    static REQUEST: HeaderValue = HeaderValue::from_static("abcdefgh");

    type HttpRequest = http::Request<tonic::body::Body>;

    /// Returns a transport whose calls are all lost, and the record of them.
    fn lost() -> (CoreTransport, Arc<Mutex<Vec<HttpRequest>>>) {
        let seen = Arc::<Mutex<Vec<HttpRequest>>>::default();
        let calls = Arc::clone(&seen);
        let transport = service_fn(move |request: HttpRequest| {
            if request.uri().path() != crate::breaker::PROBE {
                calls.lock().unwrap().push(request);
            }
            async {
                tokio::time::sleep(Duration::from_millis(10)).await;
                Err::<http::Response<tonic::body::Body>, BoxError>("cut".into())
            }
        });
        (CoreTransport::new(transport), seen)
    }

    /// Puts in the response to [`Get`].
    fn respond(call: &mut LocalCall<'_>) {
        *call.response.downcast_mut().unwrap() = Some(Got { number: 1 });
    }

    #[tokio::test]
    async fn the_calls_of_an_account_in_flight_are_bounded() {
        let counts = Arc::new((AtomicUsize::new(0), AtomicUsize::new(0)));
        let (in_flight, most) = (Arc::clone(&counts), Arc::clone(&counts));
        let calls: InProcessCalls = Arc::new(move |mut call| {
            let counts = Arc::clone(&in_flight);
            async move {
                let (in_flight, most) = &*counts;
                most.fetch_max(in_flight.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                tokio::task::yield_now().await;
                in_flight.fetch_sub(1, Ordering::Relaxed);
                respond(&mut call);
                Ok(())
            }
            .boxed()
        });
        let client = CoreClient::new(lost().0, Some(calls));
        let call = |_| client.call(Get { number: 1 }, 1, &REQUEST);
        let answers = join_all((0..1_000).map(call)).await;
        assert!(answers.iter().all(Result::is_ok));
        assert_eq!(most.1.load(Ordering::Relaxed), MAX_OF_ACCOUNT);
    }

    #[tokio::test]
    async fn a_call_outside_of_batches_takes_a_permit_too() {
        let (transport, seen) = lost();
        let client = CoreClient::new(transport, None);
        let call = |_| client.call(GetUsageRequest::default(), 1, &REQUEST);
        let mut calls = Box::pin(join_all((0..300).map(call)));
        assert!(futures_util::poll!(&mut calls).is_pending());
        assert_eq!(seen.lock().unwrap().len(), MAX_OF_ACCOUNT);
    }

    #[tokio::test]
    async fn a_call_in_the_process_carries_the_remaining_time() {
        let timeouts = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&timeouts);
        let core: InProcessCalls = Arc::new(move |mut call| {
            seen.lock().unwrap().push(call.timeout.as_millis());
            respond(&mut call);
            async { Ok(()) }.boxed()
        });
        for left in [Duration::ZERO, Duration::from_secs(30)] {
            let (deadline, trace) = (Instant::now() + left, HeaderMap::new());
            in_process(&core, &Get { number: 1 }, &REQUEST, trace, deadline).await.unwrap();
        }
        assert!(matches!(timeouts.lock().unwrap()[..], [0, 25_001..=30_000]), "{timeouts:?}");
    }

    #[tokio::test]
    async fn only_an_idempotent_call_is_sent_twice() {
        for (calls, idempotent) in [(1, false), (2, true)] {
            let (transport, seen) = lost();
            let client = CoreClient::new(transport, None);
            let request_id = if idempotent { "a-name" } else { "" }.to_owned();
            assert!(client.call(Add { request_id }, 1, &REQUEST).await.is_err());
            assert_eq!(seen.lock().unwrap().len(), calls);
        }
    }

    #[tokio::test]
    async fn an_attempt_outside_of_batches_carries_the_remaining_time_and_the_request_id() {
        let (transport, seen) = lost();
        let client = CoreClient::new(transport, None);
        assert!(client.call(GetUsageRequest::default(), 1, &REQUEST).await.is_err());
        let micros = |request: &HttpRequest| {
            assert_eq!(request.headers()["x-request-id"], "abcdefgh");
            assert_eq!(request.uri().path(), "/petstore.internal.v1.UsageService/GetUsage");
            let timeout = request.headers()["grpc-timeout"].to_str().unwrap();
            timeout.strip_suffix('u').unwrap().parse::<u64>().unwrap()
        };
        let left: Vec<_> = seen.lock().unwrap().iter().map(micros).collect();
        assert!(
            matches!(left[..], [first, second] if second + 10_000 < first && first <= 5_000_000),
            "{left:?}"
        );
    }
}
