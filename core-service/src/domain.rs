//! Values and errors that the catalogue and the accounts have in common. Pure.

mod error;
mod page;
mod violation;

pub use self::{error::*, page::*, violation::*};
