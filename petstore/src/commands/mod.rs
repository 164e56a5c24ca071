//! One file per command of the command line.

pub(crate) mod account;
pub(crate) mod ban;
pub(crate) mod core;
pub(crate) mod export;
pub mod gateway;
pub(crate) mod import;
pub(crate) mod key;
pub(crate) mod migrate;
pub mod serve;
pub(crate) mod usage;

mod store_command;
