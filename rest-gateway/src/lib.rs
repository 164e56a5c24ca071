//! The REST edge of the Animal Store Service: it authenticates, meters, and translates HTTP and JSON to gRPC.
//!
//! A request passes `petstore-http-server` (sockets) → `pipeline` (admission, and the header fields of every
//! answer) → `routes` (one handler per operation) → the core, over gRPC. Its answer returns the same way.

mod administration;
mod brownouts;
pub mod bulk;
mod core_calls;
mod cors;
pub mod docs;
mod early_reads;
mod error;
mod forwarded_prefix;
mod gateway;
mod json;
mod metrics;
pub mod openapi;
mod operation;
mod pipeline;
mod problem;
pub mod representation;
pub mod request_body;
mod request_id;
mod routes;
mod unknown_input;
mod usage;
mod waits;

pub use cors::CorsOrigin;
pub use error::{ApiError, error_page_path, error_response};
pub use gateway::{Gateway, GatewayOptions};
pub use json::{json_response, strict_members};
pub use operation::API_CATALOG;
pub use pipeline::check_head;
pub use problem::Faults;
pub use request_id::X_REQUEST_ID;
pub use routes::RestApp;
#[cfg(feature = "fuzzing")]
pub use routes::{FuzzedQuery, fuzz_creation_key, fuzz_query};
