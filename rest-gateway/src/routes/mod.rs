//! The handlers, one folder per resource. A handler translates, calls the core and answers.

mod orders;
mod paging;
mod pets;
mod usage;

use std::sync::Arc;

use axum::{
    response::Response,
    routing::{MethodRouter, get, post},
};
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};

use crate::{
    gateway::GatewayState,
    operation::{Description, Id},
};

/// Who serves an operation (HEAD comes with GET), and what the OpenAPI document says of it. `None` if it is not
/// described there.
pub(crate) fn find(operation: Id) -> Option<(MethodRouter<Arc<GatewayState>>, &'static Description)> {
    match operation {
        Id::ListPets => Some((get(pets::list::list), &pets::list::DESCRIPTION)),
        Id::CreatePet => Some((post(pets::create::create), &pets::create::DESCRIPTION)),
        Id::GetPet => Some((get(pets::get::get), &pets::get::DESCRIPTION)),
        Id::ListOrders => Some((get(orders::list), &orders::DESCRIPTION)),
        Id::GetUsage => Some((get(usage::get), &usage::DESCRIPTION)),
        Id::OpenApi | Id::Docs | Id::Options | Id::Unmatched => None,
    }
}

/// An answer whose body is JSON.
pub(crate) fn json_response(status: StatusCode, body: impl Into<Bytes>) -> Response {
    let mut response = Response::new(body.into().into());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
