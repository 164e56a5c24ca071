//! Accounts, their plans and keys, bans of keys, the feed of changes that gateways follow, and the counts of
//! requests.
//!
//! # Promises
//!
//! - The store has no key, only its digest, so that a key is shown once, when it is created.
//! - A change of an account, its keys or their bans and the revision under which gateways learn of it are one
//!   transaction. A gateway whose revision comes from before a restore of the database is told to forget all.
//! - No report of a gateway counts twice, shortens a ban or undoes a later change of an operator, even if it
//!   is sent again.
//! - What is no longer in use is deleted in bounded steps ([`KEPT`]).
//!
//! The types and their rules are pure. [`store`] alone uses `SeaORM`; it answers gateways in the messages of
//! the internal contract. Functions there that take a transaction leave it to their caller, which may record
//! in it who makes the change.
//!
//! How it fails: a call that is refused, and one that the database does not answer, is a
//! [`PetStoreError`](petstore_domain::PetStoreError).

mod account;
mod api_key;
mod ban;
mod remark;
mod retention;
pub mod store;
mod usage;

pub use petstore_caller::plans::Quota;
pub use petstore_clock::{Day, Minute};

pub use self::{account::*, api_key::*, ban::*, remark::Remark, retention::*, usage::*};
