//! The admin port of a gateway, for operators: the admin API as JSON, and the operator console.
//!
//! [`admin_router`] serves both. The API is derived from the descriptors of `petstore.admin.v1.AdminService`,
//! so a new method needs no code here. The core authenticates the operator and decides what it may do. A
//! failure is an Error body, as on the public interface.
//!
//! The port that serves the router adds these layers, from the outside in: [`answer_operator`] names each
//! request and logs its answer, [`check_operators_head`] and [`refuse_foreign_pages`] refuse what no operator
//! sends, and [`with_whole_body`] reads the body within bounds.
//!
//! ```
//! use axum::{
//!     Router,
//!     extract::{Request, State},
//!     middleware::{Next, from_fn, from_fn_with_state},
//!     response::Response,
//! };
//! use petstore_admin_web::{admin_router, answer_operator, check_operators_head, refuse_foreign_pages};
//! use petstore_gateway::Gateway;
//!
//! async fn recorded(State(gateway): State<Gateway>, request: Request, next: Next) -> Response {
//!     answer_operator(&gateway, request, next).await
//! }
//!
//! fn admin_port(gateway: Gateway) -> Router {
//!     admin_router(&gateway)
//!         .layer(from_fn(refuse_foreign_pages))
//!         .layer(from_fn(check_operators_head))
//!         .layer(from_fn_with_state(gateway, recorded))
//! }
//! ```
//!
//! Programs call the same methods by their names with [`call_admin`], in the JSON of the API.

mod api;
mod console;
mod docs_page;
#[cfg(test)]
mod testing;

#[cfg(feature = "fuzzing")]
pub use api::fuzz_requests;
pub use api::{
    USAGE_CSV_HEAD, admin_reason, answer_operator, call_admin, check_operators_head, find_requests, findings,
    record_log_level, usage_csv, with_whole_body,
};
pub use console::{HEALTH as CONSOLE_HEALTH, ProcessHealth, admin_router, refuse_foreign_pages};
pub use docs_page::page as docs_page;
