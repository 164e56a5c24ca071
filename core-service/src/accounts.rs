//! Accounts, their plans and keys, bans of keys, the feed of changes that gateways follow, and the counts
//! of requests.
//!
//! The types and their rules stand in the files beside `store` and `grpc`, and use neither.

mod account;
mod api_key;
mod ban;
pub(crate) mod grpc;
mod remark;
mod retention;
pub mod store;
mod usage;

pub use petstore_clock::{Day, Minute};
pub use petstore_plans::Quota;

pub use self::{account::*, api_key::*, ban::*, remark::Remark, retention::*, usage::*};
