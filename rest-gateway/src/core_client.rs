//! The way to the core: one transport type, whether the core is in this process or across a network.

use std::{error::Error, future::Future, time::Duration};

use http::{Request, Response, StatusCode};
use tokio::time::timeout;
use tonic::{Status, body::Body, metadata::MetadataValue, transport::Endpoint};
use tower::{BoxError, ServiceExt, util::BoxCloneSyncService};

use crate::{error::ApiError, middleware::Caller};

mod named;

pub(crate) use named::NamedTransport;

/// Carries gRPC calls to the core. The all-in-one process passes the core's own service, so that a call costs
/// no socket; a gateway of its own passes what [`connect`] returns.
pub type CoreTransport = BoxCloneSyncService<Request<Body>, Response<Body>, BoxError>;

/// How long a TCP connection to the core may take to open.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(250);
/// A silent core is noticed after an interval and a timeout, also when no call is under way.
const PING_INTERVAL: Duration = Duration::from_secs(2);
const PING_TIMEOUT: Duration = Duration::from_secs(1);

/// The address of a core that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the core's address must be a URL such as http://127.0.0.1:50051")]
pub struct InvalidCoreUrl(#[source] tonic::transport::Error);

/// The transport to the core at `url`. It connects with the first call and again whenever the connection is
/// lost. To be called inside a Tokio runtime.
///
/// # Errors
/// [`InvalidCoreUrl`] when `url` is not an absolute HTTP URL.
pub fn connect(url: &str) -> Result<CoreTransport, InvalidCoreUrl> {
    let channel = Endpoint::from_shared(url.to_owned())
        .map_err(InvalidCoreUrl)?
        .connect_timeout(CONNECT_TIMEOUT)
        .http2_keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT)
        .keep_alive_while_idle(true)
        .tcp_nodelay(true)
        .connect_lazy();
    Ok(BoxCloneSyncService::new(channel.map_err(BoxError::from)))
}

/// How long a call to the core may take.
const DEADLINE: Duration = Duration::from_secs(5);

/// A request to the core on behalf of `caller`: it carries the deadline and the request's name.
pub(crate) fn request<T>(message: T, caller: &Caller) -> tonic::Request<T> {
    let mut request = tonic::Request::new(message);
    request.set_timeout(DEADLINE);
    if let Ok(request_id) = MetadataValue::try_from(caller.request_id.as_header().as_bytes()) {
        request.metadata_mut().insert("x-request-id", request_id);
    }
    request
}

/// The core's answer to `call`, within the deadline also when the core does not keep to it. A failure is logged
/// here, once.
pub(crate) async fn answer<T>(
    call: impl Future<Output = Result<tonic::Response<T>, Status>>,
    caller: &Caller,
) -> Result<T, ApiError> {
    match timeout(DEADLINE, call).await {
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
