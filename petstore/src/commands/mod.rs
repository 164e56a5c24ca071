//! One file per command of the command line.

pub(crate) mod account;
pub(crate) mod audit;
pub(crate) mod ban;
pub(crate) mod core;
pub(crate) mod explain;
pub(crate) mod export;
pub mod gateway;
pub(crate) mod health;
pub(crate) mod import;
pub(crate) mod key;
pub(crate) mod migrate;
pub(crate) mod operator;
pub(crate) mod overview;
pub mod serve;
pub(crate) mod shell;
pub(crate) mod usage;
