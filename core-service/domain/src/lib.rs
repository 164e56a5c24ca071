//! Values and errors that the areas of the core, catalogue and accounts, have in common. Neither area knows
//! the other one.
//!
//! # Promises
//!
//! - A reason why a call was refused or failed is a [`PetStoreError`]. Its code decides its statuses. Its
//!   text and its [details](details_of) are safe to show to any client; its cause is for the log alone.
//! - A refused value is a [`Violation`]: the member, named as in JSON, and the rule that it breaks. An object
//!   is refused once, with all its [`Violations`].
//! - A page of a list has 1 to 100 rows ([`PageSize`]), and a token if another page follows ([`Page`]).
//!
//! All this is pure. [`columns`] alone uses `SeaORM`, and the details of errors alone use tonic.

pub mod columns;
mod error;
mod page;
mod status;
mod violation;

pub use self::{error::*, page::*, status::details_of, violation::*};
