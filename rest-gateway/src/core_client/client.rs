//! Calls on behalf of clients: their deadline, the second attempt, and the log line of a failure.

use std::{fmt, future::Future, pin::pin, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderName, StatusCode};
use petstore_proto::internal::v1::{Answer, Call};
use tokio::time::{Instant, timeout_at};
use tonic::{Code, Status, metadata::MetadataValue};

use super::{
    batch::{CallQueue, Reply, reply},
    breaker::{CoreBreaker, CoreNotAnswering},
    methods::BatchedMessage,
    permits::{Overloaded, Permits},
    retry::{RetryBudget, is_caused_by, retry_once},
    traced::{self, TracedTransport},
    transport::{CoreTransport, failure_text},
};
use crate::{
    error::{ApiError, is_transport_failure},
    request_id::Caller,
};

/// Time that a call to the core may take.
const DEADLINE: Duration = Duration::from_secs(5);

/// Makes calls to a core in the same process, without a network message.
pub type InProcessCalls = Arc<dyn Fn(Call) -> BoxFuture<'static, Answer> + Send + Sync>;

/// Calls the core.
pub(crate) struct CoreClient {
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
    pub(crate) fn new(transport: CoreTransport, in_process: Option<InProcessCalls>) -> Self {
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
            retries: RetryBudget::new(),
        }
    }

    /// Returns the transport, for clients of other services.
    pub(crate) fn transport(&self) -> &TracedTransport {
        &self.transport
    }

    /// Returns the breaker, which decides if the core is called at all.
    pub(crate) fn breaker(&self) -> &Arc<CoreBreaker> {
        self.transport.breaker()
    }

    /// Returns the budget of second attempts.
    pub(crate) fn retries(&self) -> &RetryBudget {
        &self.retries
    }

    /// Calls the core on behalf of `caller`, in a batch with other waiting calls. Otherwise behaves as
    /// [`call_alone`].
    pub(crate) async fn call<M: BatchedMessage>(
        &self,
        message: M,
        caller: &Caller,
    ) -> Result<M::Response, ApiError> {
        let deadline = Instant::now() + DEADLINE;
        let permits = if M::IS_WRITE { &self.writes } else { &self.reads };
        let permit = permits.acquire(caller.account_id)?;
        let attempts = pin!(async {
            let _permit = permit.await;
            retry_once(&self.retries, deadline, |_| self.attempt(message.clone(), caller, deadline)).await
        });
        within(deadline, attempts, caller).await
    }

    async fn attempt<M: BatchedMessage>(
        &self,
        message: M,
        caller: &Caller,
        deadline: Instant,
    ) -> Result<M::Response, Status> {
        let reply = {
            let span = traced::span(M::METHOD);
            let mut trace = HeaderMap::new();
            span.write(&mut trace);
            let call = Call {
                request_id: caller.request_id.as_str().to_owned(),
                traceparent: traceparent(&trace),
                timeout_ms: 0,
                method: Some(message.into_method()),
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

/// Calls the core on behalf of `caller`. The deadline holds even if the core does not keep to it. If the
/// answer is lost, the call is made once more, so `rpc` must be idempotent. A failure is logged here, once.
pub(crate) async fn call_alone<M, T, F>(
    message: M,
    caller: &Caller,
    retries: &RetryBudget,
    rpc: impl Fn(tonic::Request<M>) -> F,
) -> Result<T, ApiError>
where
    M: Clone,
    F: Future<Output = Result<tonic::Response<T>, Status>>,
{
    let deadline = Instant::now() + DEADLINE;
    let attempts = retry_once(retries, deadline, |left| rpc(request(message.clone(), caller, left)));
    within(deadline, attempts, caller).await.map(tonic::Response::into_inner)
}

impl From<Overloaded> for ApiError {
    fn from(Overloaded: Overloaded) -> Self {
        Self::Overloaded { retry_after: None }
    }
}

async fn within<T>(
    deadline: Instant,
    attempts: impl Future<Output = Result<T, Status>>,
    caller: &Caller,
) -> Result<T, ApiError> {
    match timeout_at(deadline, attempts).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(status)) => {
            let error = ApiError::from(&status);
            log(&error, &status, caller);
            Err(error)
        }
        Err(_) => {
            tracing::warn!(
                request_id = caller.request_id.as_str(),
                account_id = caller.account_id,
                "the core did not answer in time"
            );
            Err(ApiError::DeadlineExceeded)
        }
    }
}
/// Returns a request with the remaining time and the request id.
fn request<M>(message: M, caller: &Caller, left: Duration) -> tonic::Request<M> {
    let mut request = tonic::Request::new(message);
    request.set_timeout(left);
    if let Ok(request_id) = MetadataValue::try_from(caller.request_id.as_header().as_bytes()) {
        request.metadata_mut().insert("x-request-id", request_id);
    }
    request
}

/// Logs a failure. A client's mistake concerns only that client (debug), an outage may pass (warn), and a
/// fault of the service needs an operator (error).
fn log(error: &ApiError, status: &Status, caller: &Caller) {
    let (request_id, account_id) = (caller.request_id.as_str(), caller.account_id);
    let (code, grpc_status) = (error.reason().code().name, status.code());
    match error.status() {
        StatusCode::INTERNAL_SERVER_ERROR => {
            let error = failure_text(status);
            tracing::error!(request_id, account_id, code, ?grpc_status, error, "a call to the core failed");
        }
        // The breaker has logged this already, once for all requests.
        _ if is_caused_by::<CoreNotAnswering>(status) => {
            tracing::debug!(request_id, account_id, code, "the core does not answer");
        }
        // The transport has logged this already, once a minute and with the core's address.
        _ if status.code() == Code::Unauthenticated => {
            tracing::debug!(request_id, account_id, code, "the core refuses this gateway");
        }
        http if http.is_server_error() => {
            let error = failure_text(status);
            tracing::warn!(request_id, account_id, code, ?grpc_status, error, "the core is not available");
        }
        _ => tracing::debug!(
            request_id,
            account_id,
            code,
            ?grpc_status,
            "the core refused a call: {}",
            status.message()
        ),
    }
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
    use petstore_clock::{Clock, UnixMillis};
    use petstore_proto::{
        internal::v1::{Plan, answer::Outcome},
        v1::{GetPetRequest, GetPetResponse},
    };
    use tonic::Response;
    use tower::{BoxError, service_fn};

    use super::*;
    use crate::{core_client::permits::MAX_OF_ACCOUNT, request_id::RequestId, testing::Logged};

    fn caller() -> Caller {
        let named = HeaderMap::from_iter([("x-request-id".parse().unwrap(), "abcdefgh".parse().unwrap())]);
        let request_id = RequestId::from_headers(&named, &Clock::manual(UnixMillis(0)).0);
        Caller { account_id: 1, plan: Plan::Free, request_id }
    }

    #[test]
    fn only_a_fault_of_the_service_is_logged_as_an_error() {
        let logged = Logged::of("core_client::client");
        let mut not_answering = Status::unavailable("");
        not_answering.set_source(Arc::new(CoreNotAnswering));
        for (status, level) in [
            (Status::internal("a fault"), tracing::Level::ERROR),
            (Status::unavailable("busy"), tracing::Level::WARN),
            (not_answering, tracing::Level::DEBUG),
            (Status::unauthenticated("not this core's"), tracing::Level::DEBUG),
            (Status::not_found("no such pet"), tracing::Level::DEBUG),
        ] {
            log(&ApiError::from(&status), &status, &caller());
            assert_eq!(logged.levels(), [level], "{status:?}");
        }
    }

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
        let caller = caller();
        let answers = join_all((0..1_000).map(|_| client.call(GetPetRequest { pet_id: 1 }, &caller))).await;
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
        let caller = caller();
        let seen = Mutex::new(Vec::new());
        let answer: Result<(), _> = call_alone((), &caller, &RetryBudget::new(), |request| {
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
