//! The handlers, one folder per resource. A handler translates, calls the core and answers.

mod orders;
mod paging;
mod pets;
mod usage;

use axum::response::Response;
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};

use crate::{
    error::ApiError,
    gateway::GatewayState,
    operation::{Description, Id},
    pipeline::Admitted,
};

/// What the OpenAPI document says of an operation. `None` if it is not described there.
pub(crate) const fn description(operation: Id) -> Option<&'static Description> {
    match operation {
        Id::ListPets => Some(&pets::list::DESCRIPTION),
        Id::CreatePet => Some(&pets::create::DESCRIPTION),
        Id::GetPet => Some(&pets::get::DESCRIPTION),
        Id::ListOrders => Some(&orders::DESCRIPTION),
        Id::GetUsage => Some(&usage::DESCRIPTION),
        Id::OpenApi | Id::Docs | Id::Options | Id::Unmatched => None,
    }
}

/// Hands the request to the handler of its operation. What has no handler here goes back.
pub(crate) async fn handle(
    gateway: &GatewayState,
    admitted: Admitted,
) -> Result<Result<Response, ApiError>, Admitted> {
    let Admitted { operation, caller: Some(caller), limit_status, request } = admitted else {
        return Err(admitted);
    };
    Ok(match operation {
        Id::ListPets => pets::list::list(gateway, &caller, request.uri()).await,
        Id::CreatePet => Box::pin(pets::create::create(gateway, &caller, request)).await,
        Id::GetPet => pets::get::get(gateway, &caller, request.uri()).await,
        Id::ListOrders => Box::pin(orders::list(gateway, &caller, request.uri())).await,
        Id::GetUsage => Box::pin(usage::get(gateway, &caller, limit_status)).await,
        Id::OpenApi | Id::Docs | Id::Options | Id::Unmatched => {
            return Err(Admitted { operation, caller: Some(caller), limit_status, request });
        }
    })
}

/// As many header fields as most answers have.
const FIELDS: usize = 16;

/// An answer whose body is JSON.
pub(crate) fn json_response(status: StatusCode, body: impl Into<Bytes>) -> Response {
    let mut response = Response::new(body.into().into());
    *response.status_mut() = status;
    response.headers_mut().reserve(FIELDS);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
