//! The OpenAPI description of the REST interface, served at `/openapi.json` and printed by `petstore
//! openapi`.
//!
//! It is built in code rather than kept as a file: operations, schemas, error codes and examples come from
//! the places that have them, and cannot drift from what the service sends. The same document is committed as
//! `docs/api/openapi.json`, so that a change of the interface shows in a diff.

mod headers;
mod info;
mod operations;
mod parameters;
#[cfg(test)]
mod tests;

use axum::{
    response::AppendHeaders,
    routing::{MethodRouter, get},
};
use http::{HeaderMap, HeaderName, HeaderValue, header};
use serde_json::{Map, Value, json};

use crate::{error::responses, json, representation::Representation};

/// The whole document, OpenAPI 3.1. It describes only what exists: later operations are added with their
/// code.
#[must_use]
pub fn document() -> Value {
    let schemas = json::schemas().chain([("Error", responses::schema())]);
    json!({
        "openapi": "3.1.0",
        "info": info::info(),
        "servers": info::servers(),
        "security": [{ info::SECURITY_SCHEME: [] }],
        "tags": info::tags(),
        "paths": operations::paths(),
        "x-responses-outside-operations": operations::outside_operations(),
        "components": {
            "schemas": schemas.map(|(name, schema)| (name.to_owned(), schema)).collect::<Map<_, _>>(),
            "parameters": parameters::parameters(),
            "headers": headers::headers(),
            "responses": operations::components(),
            "securitySchemes": info::security_schemes(),
        },
    })
}

/// `GET /openapi.json`, open to everybody. It is kept, but asked for each time: a new release shows at once,
/// and an unchanged document costs a 304.
pub(crate) fn route<S: Clone + Send + Sync + 'static>() -> MethodRouter<S> {
    const REVALIDATED: (HeaderName, HeaderValue) =
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    let document = Representation::new("application/json", document().to_string());
    get(async move |headers: HeaderMap| (AppendHeaders([REVALIDATED]), document.answer(&headers)))
}
