//! The OpenAPI description of the REST interface, served at `/openapi.json` and printed by `petstore
//! openapi`.
//!
//! It is built in code rather than kept as a file, so that error codes, HTTP statuses and examples come from
//! [`ErrorReason`](petstore_proto::v1::ErrorReason) and cannot drift from what the service sends. The same
//! document is committed as `docs/api/openapi.json`, so that a change of the interface shows in a diff.

mod headers;
mod info;
mod parameters;
mod paths;
mod responses;
mod schemas;
#[cfg(test)]
mod tests;

use serde_json::{Value, json};

/// The whole document, OpenAPI 3.1. It describes only what exists: later operations are added with their
/// code.
#[must_use]
pub fn document() -> Value {
    json!({
        "openapi": "3.1.0",
        "info": info::info(),
        "servers": info::servers(),
        "security": [{ info::SECURITY_SCHEME: [] }],
        "tags": info::tags(),
        "paths": paths::paths(),
        "x-responses-outside-operations": responses::outside_operations(),
        "components": {
            "schemas": schemas::schemas(),
            "parameters": parameters::parameters(),
            "headers": headers::headers(),
            "responses": responses::components(),
            "securitySchemes": info::security_schemes(),
        },
    })
}

/// A reference to a component, such as `reference("schemas", "Pet")`.
fn reference(kind: &str, name: &str) -> Value {
    json!({ "$ref": format!("#/components/{kind}/{name}") })
}
