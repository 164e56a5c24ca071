//! `/v1/pets`: the pets (docs/contract.md, 7).

pub(super) mod create;
pub(super) mod get;
mod idempotency_key;
pub(super) mod list;
