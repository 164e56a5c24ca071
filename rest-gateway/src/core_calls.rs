//! Calls of clients' requests to the core, and the log line of a failure.

use futures_util::future::BoxFuture;
use http::StatusCode;
use petstore_core_client::{CallError, CoreClient, CoreNotAnswering, CoreServices, failure_text};
use petstore_proto::rpc::Rpc;
use tonic::{Code, Request, Response, Status};

use crate::{error::ApiError, request::Caller};

/// The core, as handlers call it on behalf of callers. The failure of a call is logged.
pub(crate) struct CoreCalls {
    /// The client, for calls that are not made for a request.
    pub(crate) client: CoreClient,
}

impl CoreCalls {
    /// Makes a `call` of the method on behalf of the caller.
    pub(crate) async fn call<'a, M: Clone, T>(
        &'a self,
        rpc: Rpc,
        request: M,
        caller: &Caller,
        call: impl Fn(&'a CoreServices, Request<M>) -> BoxFuture<'a, tonic::Result<Response<T>>>,
    ) -> Result<T, ApiError> {
        let answered = self.client.call(rpc, request, caller.account_id, &caller.request_id, call).await;
        answered.map_err(|error| explain(error, rpc.path, caller))
    }
}

/// Logs the failure of a call, once, and returns its error for the client.
fn explain(error: CallError, method: &'static str, caller: &Caller) -> ApiError {
    match error {
        CallError::Overloaded => ApiError::Overloaded { retry_after: None },
        CallError::DeadlineExceeded => {
            tracing::warn!(
                request_id = caller.request_id.as_str(),
                account_id = caller.account_id,
                method,
                "the core did not answer in time"
            );
            ApiError::DeadlineExceeded
        }
        CallError::Status(status) => {
            let error = ApiError::from(&status);
            log(&error, &status, method, caller);
            error
        }
    }
}

/// Logs a failure. A client's mistake concerns only that client (debug), an outage may pass (warn), and a
/// fault of the service needs an operator (error).
fn log(error: &ApiError, status: &Status, method: &'static str, caller: &Caller) {
    let (request_id, account_id) = (caller.request_id.as_str(), caller.account_id);
    let (code, grpc_status) = (error.reason().code().name, status.code());
    match error.status() {
        StatusCode::INTERNAL_SERVER_ERROR => {
            let error = failure_text(status);
            tracing::error!(request_id, account_id, code, ?grpc_status, error, "a call to the core failed");
        }
        // The breaker has logged this already, once for all requests.
        _ if CoreNotAnswering::has_caused(status) => {
            tracing::debug!(request_id, account_id, code, "the core does not answer");
        }
        // The transport has logged this already, once a minute and with the core's address.
        _ if status.code() == Code::Unauthenticated => {
            tracing::debug!(request_id, account_id, code, "the core refuses this gateway");
        }
        _ if status.code() == Code::Unimplemented => {
            tracing::warn!(request_id, account_id, code, method, "the core lacks this method: upgrade it");
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
    use std::sync::Arc;

    use http::HeaderMap;
    use petstore_clock::{Clock, UnixMillis};
    use petstore_test_servers::Logged;

    use super::*;
    use crate::request::request_id;

    #[test]
    fn only_a_fault_of_the_service_is_logged_as_an_error() {
        let logged = Logged::of("core_calls");
        let request_id = request_id(&HeaderMap::new(), &Clock::manual(UnixMillis(0)).0);
        let caller = Caller { account_id: 1, request_id, limits: None };
        let mut not_answering = Status::unavailable("");
        not_answering.set_source(Arc::new(CoreNotAnswering));
        for (status, level) in [
            (Status::internal("a fault"), tracing::Level::ERROR),
            (Status::unavailable("busy"), tracing::Level::WARN),
            (Status::unimplemented("no such method"), tracing::Level::WARN),
            (not_answering, tracing::Level::DEBUG),
            (Status::unauthenticated("not this core's"), tracing::Level::DEBUG),
            (Status::not_found("no such pet"), tracing::Level::DEBUG),
        ] {
            log(&ApiError::from(&status), &status, "package.Service/Method", &caller);
            assert_eq!(logged.levels(), [level], "{status:?}");
        }
    }
}
