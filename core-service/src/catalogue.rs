//! The catalogue: pets and orders. It is all that a service with other resources replaces.
//!
//! The types and their rules stand in the files beside `store` and `grpc`, and use neither.

mod creation;
pub(crate) mod grpc;
mod list;
mod order;
mod pet;
pub(crate) mod store;

#[cfg(feature = "fuzzing")]
pub use grpc::{fuzz_list, fuzz_pet};

pub use self::{creation::*, list::*, order::*, pet::*};
