//! The way to the core: one transport type, whether the core is in this process or across a network.

use std::{error::Error, future::Future, time::Duration};

use http::{Request, Response, StatusCode};
use tokio::time::{Instant, timeout_at};
use tonic::{Status, body::Body, metadata::MetadataValue};
use tower::{BoxError, util::BoxCloneSyncService};

use crate::{error::ApiError, middleware::Caller};

mod connect;
mod named;
mod retry;

pub use connect::{CoreAddress, CoreTls, InvalidCoreAddress, connect};
pub(crate) use named::NamedTransport;
pub(crate) use retry::{RetryBudget, once_more};

/// Carries gRPC calls to the core. The all-in-one process passes the core's own service, so that a call costs
/// no socket; a gateway of its own passes what [`connect`] returns.
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
            tracing::warn!(request.id = caller.request_id.as_str(), "the core did not answer in time");
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
    let (request_id, account_id) = (caller.request_id.as_str(), caller.key.account_id);
    let (code, message, cause) = (status.code(), status.message(), status.source());
    match error.status() {
        StatusCode::INTERNAL_SERVER_ERROR => {
            tracing::error!(
                request.id = request_id,
                account.id = account_id,
                ?code,
                cause,
                "a call to the core failed: {message}"
            );
        }
        status if status.is_server_error() => {
            tracing::warn!(
                request.id = request_id,
                account.id = account_id,
                ?code,
                cause,
                "the core is not available: {message}"
            );
        }
        _ => tracing::debug!(
            request.id = request_id,
            account.id = account_id,
            ?code,
            "the core refused a call: {message}"
        ),
    }
}
