//! Faults between two processes: a TCP proxy that delays, holds, cuts and refuses as the test says.

mod connection;
mod fault;
mod proxy;

pub use self::{fault::Fault, proxy::Proxy};
