//! The tables of accounts, as `petstore-migrations` creates them.

pub(super) mod account;
pub(super) mod api_key;
pub(super) mod ban;
pub(super) mod refusal;
