//! The REST edge of the Animal Store Service: it authenticates, meters, and translates HTTP and JSON to gRPC.
//!
//! A request passes `petstore-http-server` (sockets) → `pipeline` (admission, and the header fields of every
//! response) → the router of `OPERATIONS` → the handler in the file of its resource,
//! such as `pets` → the core. Its response returns the same way.
//!
//! A new operation is a row below, the handler that it names, in the file of its resource, and its
//! description in `openapi/document.json`, with which a test compares the rows.

mod core_calls;
mod cors;
mod deprecation;
pub mod docs;
mod early_reads;
mod error;
mod extract;
mod gateway;
mod json;
mod metrics;
pub mod openapi;
#[macro_use]
mod operation;
mod orders;
mod page_query;
pub mod pets;
mod pipeline;
mod problem;
pub mod representation;
mod request;
pub mod request_body;
mod unknown_input;
mod usage;
mod usage_counter;

pub use cors::CorsOrigin;
pub use error::{ApiError, Faults, error_page_path, error_response};
#[cfg(feature = "fuzzing")]
pub use extract::fuzz_creation_key;
pub use gateway::{Gateway, GatewayOptions};
pub use json::{json_response, strict_members};
pub use operation::API_CATALOG;
#[cfg(feature = "fuzzing")]
pub use page_query::{FuzzedQuery, fuzz_query};
pub use pipeline::{RestApp, check_head};
pub use request::X_REQUEST_ID;

operations! {
    ("listPets", GET, "/v1/pets", Quota, Stable, false) => pets::list_pets;
    ("createPet", POST, "/v1/pets", Quota, Stable, false) => pets::create_pet;
    ("getPet", GET, "/v1/pets/{petId}", Quota, Stable, true) => pets::get_pet;
    ("listOrders", GET, "/v1/store/orders", Quota, Experimental, false) => orders::list_orders;
    ("getUsage", GET, "/v1/usage", OwnLimit, Beta, false) => usage::get_usage;
    ("openapi", GET, "/openapi.json", Nothing, Stable, false) => openapi::get_document;
}
