//! The commands of the command line, except import and export.

pub(crate) mod account;
pub(crate) mod backup;
pub(crate) mod ban;
pub(crate) mod health;
pub(crate) mod key;
pub(crate) mod migrate;
pub(crate) mod operator;
pub(crate) mod reports;
pub mod servers;
pub(crate) mod shell;
