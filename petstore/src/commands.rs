//! The servers, and the commands that work on their store or on one of their processes.

pub(crate) mod backup;
pub(crate) mod health;
pub(crate) mod migrate;
pub mod servers;
pub(crate) mod shell;
