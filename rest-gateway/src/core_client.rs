//! The way to the core: one transport type, whether the core is in this process or across a network.

use std::{future::Future, time::Duration};

use http::{Request, Response, StatusCode};
use tokio::time::{Instant, timeout_at};
use tonic::{Status, body::Body, metadata::MetadataValue};
use tower::{BoxError, util::BoxCloneSyncService};

use crate::{
    caller::Caller,
    error::{self, ApiError},
};

mod breaker;
mod connect;
mod failure;
mod named;
mod retry;

pub(crate) use breaker::CoreBreaker;
pub use connect::{CoreAddress, CoreTls, InvalidCoreAddress, connect};
pub use failure::failure_text;
pub(crate) use failure::is_final_refusal;
pub(crate) use named::NamedTransport;
pub(crate) use retry::{RetryBudget, once_more};

/// Carries gRPC calls to the core. The all-in-one process passes the core's own service, so that a call costs
/// no socket; a gateway of its own passes what [`connect()`] returns.
pub type CoreTransport = BoxCloneSyncService<Request<Body>, Response<Body>, BoxError>;

/// How long a call to the core may take.
const DEADLINE: Duration = Duration::from_secs(5);

/// Asks the core on behalf of `caller`, within the deadline also when the core does not keep to it, and once more if
/// the answer is lost: `rpc` has to mean the same when it arrives twice. A failure is logged here, once.
pub(crate) async fn ask<M, T, F>(
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
    let attempts = once_more(retries, deadline, |left| rpc(request(message.clone(), caller, left)));
    match timeout_at(deadline, attempts).await {
        Ok(Ok(response)) => Ok(response.into_inner()),
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

/// A request that carries the time that is left and the request's name.
fn request<M>(message: M, caller: &Caller, left: Duration) -> tonic::Request<M> {
    let mut request = tonic::Request::new(message);
    request.set_timeout(left);
    if let Ok(request_id) = MetadataValue::try_from(caller.request_id.as_header().as_bytes()) {
        request.metadata_mut().insert("x-request-id", request_id);
    }
    request
}

/// A client's mistake is of interest to nobody else; an outage may pass; a fault of ours needs someone.
fn log(error: &ApiError, status: &Status, caller: &Caller) {
    let (request_id, account_id) = (caller.request_id.as_str(), caller.account_id);
    let (code, grpc_status) = (error::code(error.reason()), status.code());
    match error.status() {
        StatusCode::INTERNAL_SERVER_ERROR => {
            let error = failure_text(status);
            tracing::error!(request_id, account_id, code, ?grpc_status, error, "a call to the core failed");
        }
        // The breaker has told already, once for all requests.
        _ if retry::is_caused_by::<breaker::CoreNotAnswering>(status) => {
            tracing::debug!(request_id, account_id, code, "the core does not answer");
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
    use std::{io, sync::Mutex};

    use http::HeaderMap;
    use petstore_clock::{Clock, UnixMillis};
    use petstore_proto::internal::v1::Plan;
    use tonic::Response;

    use super::*;
    use crate::request_id::RequestId;

    #[tokio::test]
    async fn an_attempt_carries_the_time_that_is_left_and_the_requests_name() {
        let named = HeaderMap::from_iter([("x-request-id".parse().unwrap(), "abcdefgh".parse().unwrap())]);
        let request_id = RequestId::from_headers(&named, &Clock::manual(UnixMillis(0)).0);
        let caller = Caller { account_id: 1, plan: Plan::Free, request_id };
        let seen = Mutex::new(Vec::new());
        let answer: Result<(), _> = ask((), &caller, &RetryBudget::new(), |request| {
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
