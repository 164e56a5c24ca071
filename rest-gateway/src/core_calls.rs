//! Calls of clients' requests to the core: the methods that are called in batches, and the log line of a
//! failure.

use http::StatusCode;
use petstore_core_client::{BatchedMethod, CallError, CoreClient, CoreNotAnswering, failure_text};
use petstore_proto::{
    internal::v1::{answer::Outcome, call::Method},
    v1::{
        CreatePetRequest, CreatePetResponse, GetPetRequest, GetPetResponse, ListOrdersRequest,
        ListOrdersResponse, ListPetsRequest, ListPetsResponse,
    },
};
use tonic::{Code, Status};

use crate::{error::ApiError, request_id::Caller};

/// Methods that a gateway needs its core to have.
pub(crate) const METHODS: [&str; 10] = [
    GetPet::NAME,
    ListPets::NAME,
    CreatePet::NAME,
    ListOrders::NAME,
    "petstore.internal.v1.BatchService/Call",
    "petstore.internal.v1.KeyService/ResolveKeys",
    "petstore.internal.v1.KeyService/ReportUse",
    "petstore.internal.v1.KeyService/ReportBan",
    "petstore.internal.v1.UsageService/ReportUsage",
    "petstore.internal.v1.UsageService/GetUsage",
];

macro_rules! batched {
    ($method:ident: $request:ty => $response:ty, $name:literal, is_write: $is_write:literal) => {
        #[doc = concat!("The method `", $name, "`.")]
        pub(crate) struct $method;

        impl BatchedMethod for $method {
            type Request = $request;
            type Response = $response;
            const NAME: &'static str = $name;
            const IS_WRITE: bool = $is_write;

            fn into_call(request: $request) -> Method {
                Method::$method(request)
            }

            fn response(outcome: Outcome) -> Option<$response> {
                if let Outcome::$method(response) = outcome { Some(response) } else { None }
            }
        }
    };
}

batched!(GetPet: GetPetRequest => GetPetResponse, "petstore.v1.PetStore/GetPet", is_write: false);
batched!(ListPets: ListPetsRequest => ListPetsResponse, "petstore.v1.PetStore/ListPets", is_write: false);
batched!(CreatePet: CreatePetRequest => CreatePetResponse, "petstore.v1.PetStore/CreatePet", is_write: true);
batched!(ListOrders: ListOrdersRequest => ListOrdersResponse, "petstore.v1.StoreService/ListOrders",
    is_write: false);

/// Calls the core on behalf of `caller`, in a batch with other waiting calls. A failure is logged.
pub(crate) async fn call<M: BatchedMethod>(
    core: &CoreClient,
    request: M::Request,
    caller: &Caller,
) -> Result<M::Response, ApiError> {
    let answer = core.call::<M>(request, caller.account_id, caller.request_id.as_header()).await;
    answer.map_err(|error| explain(error, caller))
}

/// Logs the failure of a call, once, and returns its error for the client.
pub(crate) fn explain(error: CallError, caller: &Caller) -> ApiError {
    match error {
        CallError::Overloaded => ApiError::Overloaded { retry_after: None },
        CallError::DeadlineExceeded => {
            tracing::warn!(
                request_id = caller.request_id.as_str(),
                account_id = caller.account_id,
                "the core did not answer in time"
            );
            ApiError::DeadlineExceeded
        }
        CallError::Status(status) => {
            let error = ApiError::from(&status);
            log(&error, &status, caller);
            error
        }
    }
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
        _ if CoreNotAnswering::has_caused(status) => {
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
    use std::sync::Arc;

    use http::HeaderMap;
    use petstore_clock::{Clock, UnixMillis};
    use petstore_proto::internal::v1::Plan;
    use petstore_test_servers::Logged;

    use super::*;
    use crate::request_id::RequestId;

    #[test]
    fn only_a_fault_of_the_service_is_logged_as_an_error() {
        let logged = Logged::of("core_calls");
        let request_id = RequestId::from_headers(&HeaderMap::new(), &Clock::manual(UnixMillis(0)).0);
        let caller = Caller { account_id: 1, plan: Plan::Free, request_id };
        let mut not_answering = Status::unavailable("");
        not_answering.set_source(Arc::new(CoreNotAnswering));
        for (status, level) in [
            (Status::internal("a fault"), tracing::Level::ERROR),
            (Status::unavailable("busy"), tracing::Level::WARN),
            (not_answering, tracing::Level::DEBUG),
            (Status::unauthenticated("not this core's"), tracing::Level::DEBUG),
            (Status::not_found("no such pet"), tracing::Level::DEBUG),
        ] {
            log(&ApiError::from(&status), &status, &caller);
            assert_eq!(logged.levels(), [level], "{status:?}");
        }
    }
}
