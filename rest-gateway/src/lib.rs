//! The REST edge of the Animal Store Service: it authenticates, meters, and translates HTTP and JSON to gRPC.
//!
//! A request passes `petstore-http-server` (sockets) → `pipeline` (admission, and the header fields of every
//! answer) → `routes` (one handler per operation) → the core, over gRPC. Its answer returns the same way.

mod admin;
pub mod bulk;
mod console;
mod core_calls;
mod cors;
mod docs;
mod error;
mod gateway;
mod json;
pub mod keys;
mod metrics;
mod openapi;
mod operation;
mod pipeline;
mod representation;
mod request_body;
mod request_id;
mod routes;
mod usage;

pub use admin::{admin_of, admin_reason, answer_operator, call_admin, check_operators_head, with_whole_body};
pub use console::{HEALTH as CONSOLE_HEALTH, ProcessHealth, admin_router, refuse_foreign_pages};
pub use cors::CorsOrigin;
pub use error::error_response;
pub use gateway::{Gateway, GatewayOptions};
pub use openapi::document as openapi;
pub use routes::RestApp;
#[cfg(feature = "fuzzing")]
pub use {
    admin::fuzz_requests,
    routes::{FuzzedQuery, fuzz_creation_key, fuzz_query},
};
