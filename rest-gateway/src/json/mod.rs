//! Request and response bodies: JSON on one side, the gRPC messages on the other.
//!
//! What is judged here is JSON (RFC 8259) and shape: which members there are, and of which type. Which values
//! are good is the core's to say.

mod document;
mod new_pet;
mod order;
mod pet;
mod pet_status;
mod usage;

pub(crate) use new_pet::{new_pet, new_pet_from_cells};
pub(crate) use order::orders_body;
pub(crate) use pet::{pet_body, pets_body};
pub(crate) use pet_status::{STATUS_WORDS, status_from_word, word_of};
pub(crate) use usage::usage_body;
pub use usage::{BanBody, LimitStatusBody, WindowBody};
