//! Request and response bodies: JSON on one side, the gRPC messages on the other, and the schema of each.
//!
//! What is judged here is JSON (RFC 8259) and shape: which members there are, and of which type. Which values
//! are good is the core's to say.

mod document;
mod order;
mod pet;
mod schema;
mod usage;

use serde_json::Value;

pub(crate) use order::orders_body;
pub(crate) use pet::pet_status_word;
pub(crate) use pet::{
    MEMBERS, REQUIRED, STATUS_WORDS, new_pet, new_pet_from_cells, pet_body, pet_cells, pets_body,
    status_from_word,
};
pub(crate) use schema::reference;
pub(crate) use usage::usage_body;
pub use usage::{BanBody, LimitStatusBody, WindowBody};

/// The schemas of all bodies but Error, by name.
pub(crate) fn schemas() -> impl Iterator<Item = (&'static str, Value)> {
    [pet::schemas(), order::schemas(), usage::schemas()].into_iter().flatten()
}
