//! The handlers, one folder per resource. A handler translates, calls the core and answers.

pub(crate) mod openapi;
pub(crate) mod orders;
mod paging;
pub(crate) mod pets;
pub(crate) mod usage;

use axum::response::Response;
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};

/// An answer whose body is JSON.
fn json(status: StatusCode, body: impl Into<Bytes>) -> Response {
    let mut response = Response::new(body.into().into());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
