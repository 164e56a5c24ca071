//! Calls on behalf of accounts: their deadline and the second attempt.

use std::{pin::pin, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use http::HeaderMap;
use petstore_caller::call::{CallContext, RequestId};
use petstore_proto::rpc::Rpc;
use petstore_telemetry::traces::Span;
use tokio::time::{Instant, timeout_at};
use tonic::{Request, Response, Status};

use super::{
    permits::{Overloaded, Permits},
    remote::{CoreServices, RemoteCore},
    retry::{RetryBudget, retry_once},
    traced::{self, TracedTransport},
    transport::{CoreTransport, failure_text, is_transport_failure},
};

/// Time that a call to the core may take.
const DEADLINE: Duration = Duration::from_secs(5);

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
    /// Transport, for clients of other services. Its breaker decides if the core is called at all.
    pub transport: TracedTransport,
    services: CoreServices,
    reads: Arc<Permits>,
    writes: Arc<Permits>,
    retries: RetryBudget,
}

impl CoreClient {
    /// Creates a client of a core. If it is `in_process`, its services are called directly, and only calls of
    /// other clients go over `transport`.
    pub fn new(transport: CoreTransport, in_process: Option<CoreServices>) -> Self {
        let transport = TracedTransport::from(transport);
        Self {
            services: in_process.unwrap_or_else(|| Arc::new(RemoteCore::new(&transport)).into()),
            transport,
            reads: Arc::default(),
            writes: Arc::default(),
            retries: RetryBudget::default(),
        }
    }

    /// Makes a `call` of the method on behalf of an account. The deadline holds even if the core does not
    /// keep to it. If the answer is lost and the method is idempotent, the call is made once more.
    ///
    /// # Errors
    /// [`CallError`], also if the account has too many calls. It is not logged here.
    pub async fn call<'a, M: Clone, T>(
        &'a self,
        rpc: Rpc,
        request: M,
        account_id: i64,
        request_id: &RequestId,
        call: impl Fn(&'a CoreServices, Request<M>) -> BoxFuture<'a, Result<Response<T>, Status>>,
    ) -> Result<T, CallError> {
        let deadline = Instant::now() + DEADLINE;
        let permits = if rpc.is_read { &self.reads } else { &self.writes };
        let permit = permits.acquire(account_id).map_err(|Overloaded| CallError::Overloaded)?;
        let attempts = pin!(async {
            let _permit = permit.await;
            let (request, call) = (&request, &call);
            let attempt = async |left| {
                let span = traced::span(rpc.path);
                let request = with_context(request.clone(), request_id.clone(), &span, left);
                let answered = call(&self.services, request).await;
                match &answered {
                    Ok(_) => traced::describe_status(&span, 0),
                    Err(status) if is_transport_failure(status) => span.fail("transport error"),
                    Err(status) => traced::describe_status(&span, status.code().into()),
                }
                answered.map(Response::into_inner)
            };
            if rpc.is_idempotent {
                retry_once(&self.retries, deadline, attempt).await
            } else {
                attempt(deadline.saturating_duration_since(Instant::now())).await
            }
        });
        let answered = timeout_at(deadline, attempts).await;
        answered.map_err(|_| CallError::DeadlineExceeded)?.map_err(CallError::Status)
    }
}

/// Returns the message as a request with its context.
fn with_context<M>(message: M, id: RequestId, span: &Span, left: Duration) -> Request<M> {
    let (mut trace, started) = (HeaderMap::new(), std::time::Instant::now());
    span.write(&mut trace);
    let mut request = Request::new(message);
    let context = CallContext { id: Some(id), caller: None, timeout: Some(left), trace, started };
    request.extensions_mut().insert(context);
    request
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    };

    use futures_util::{FutureExt, future::join_all};
    use petstore_proto::{
        internal::v1::{GetUsageRequest, GetUsageResponse},
        rpc::{CREATE_PET, GET_PET, GET_USAGE},
        v1::{CreatePetRequest, CreatePetResponse},
    };
    use tower::{BoxError, service_fn};

    use super::*;
    use crate::permits::MAX_OF_ACCOUNT;

    fn id() -> RequestId {
        RequestId::parse(&"abcdefgh".parse().unwrap()).unwrap()
    }

    async fn get_usage(client: &CoreClient) -> Result<GetUsageResponse, CallError> {
        let request = GetUsageRequest::default();
        client.call(GET_USAGE, request, 1, &id(), |core, it| core.usage.get_usage(it)).await
    }

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

    #[tokio::test]
    async fn the_calls_of_an_account_in_flight_are_bounded() {
        let (in_flight, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let (client, id) = (CoreClient::new(lost().0, None), id());
        let call = |_| {
            client.call(GET_PET, (), 1, &id, |_, _| {
                async {
                    most.fetch_max(in_flight.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                    tokio::task::yield_now().await;
                    in_flight.fetch_sub(1, Ordering::Relaxed);
                    Ok(Response::new(()))
                }
                .boxed()
            })
        };
        assert!(join_all((0..1_000).map(call)).await.iter().all(Result::is_ok));
        assert_eq!(most.load(Ordering::Relaxed), MAX_OF_ACCOUNT);
    }

    #[tokio::test]
    async fn only_an_idempotent_call_is_sent_twice() {
        for (calls, is_idempotent) in [(1, false), (2, true)] {
            let (transport, seen) = lost();
            let (client, rpc) = (CoreClient::new(transport, None), Rpc { is_idempotent, ..CREATE_PET });
            let request = CreatePetRequest::default();
            let created: Result<CreatePetResponse, _> =
                client.call(rpc, request, 1, &id(), |core, it| core.pets.create_pet(it)).await;
            assert!(created.is_err());
            assert_eq!(seen.lock().unwrap().len(), calls);
        }
    }

    #[tokio::test]
    async fn an_attempt_outside_of_batches_carries_the_remaining_time_and_the_request_id() {
        let (transport, seen) = lost();
        let client = CoreClient::new(transport, None);
        assert!(get_usage(&client).await.is_err());
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
