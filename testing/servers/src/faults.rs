//! Faults between two processes: a TCP proxy that delays, holds, cuts and refuses on request, and one that
//! does so at single messages of PostgreSQL's protocol.

mod connection;
mod control;
mod fault;
pub mod postgres;
mod proxy;

pub use self::{fault::Fault, proxy::Proxy};
