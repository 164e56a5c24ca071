//! `/v1/pets`: the pets (docs/contract.md, 7).

mod body;
mod create;
mod get;
mod idempotency_key;
mod list;

pub(crate) use create::create;
pub(crate) use get::get;
pub(crate) use list::list;
