//! The REST edge of the Animal Store Service: it authenticates, meters, and translates HTTP and JSON to gRPC.
//!
//! A request walks: [`server`] (sockets) → `middleware` (what every answer carries, who may pass) → `routes`
//! (one handler per operation) → the core, over gRPC. Its answer returns the same way.

pub mod client_address;
pub mod core_client;
mod cors;
mod deprecation;
mod docs;
mod error;
pub mod exchange;
mod gateway;
mod json;
pub mod keys;
mod metrics;
mod middleware;
mod openapi;
mod operation;
pub mod rate_limit;
mod router;
mod routes;
pub mod server;
mod stability;
pub mod tls;
mod usage;

pub use cors::{CorsOrigin, InvalidCorsOrigin};
pub use gateway::{Gateway, GatewaySettings, PartState, Readiness};
pub use json::limit_status_json;
pub use openapi::document as openapi;
pub use router::router;
