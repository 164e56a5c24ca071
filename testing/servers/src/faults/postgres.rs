//! Faults between a client and PostgreSQL. The proxy knows where a message of the protocol begins and ends,
//! and which statement it belongs to, so that a fault occurs exactly there.
//!
//! It reads the protocol's version 3 (<https://www.postgresql.org/docs/current/protocol.html>), without TLS.

mod connection;
mod conversation;
mod message;
mod plan;
mod proxy;

pub use self::{
    message::Side,
    plan::{Action, Injected, MessageFault, MessageSite},
    proxy::PostgresProxy,
};
