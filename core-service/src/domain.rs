//! Domain types and their rules. Each rule is defined here once: both edges, REST and gRPC, answer with its
//! result and its text.

mod account;
mod api_key;
mod ban;
mod creation;
mod error;
mod order;
mod page;
mod pet;
mod retention;
mod text;
mod usage;
mod violation;

pub use petstore_clock::{Day, Minute};
pub use petstore_plans::Quota;

pub use self::{
    account::*, api_key::*, ban::*, creation::*, error::*, order::*, page::*, pet::*, retention::*, text::*,
    usage::*, violation::*,
};
