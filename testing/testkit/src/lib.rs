//! Starts the service, talks to it and moves its clock, for tests.
//!
//! - [`TestShop`] is the whole service in this process, on its own store, with a clock that only the test
//!   advances.
//! - [`Installation`] is a folder in which the binary runs, as an operator would run it.
//! - [`Client`] speaks REST with one identity and returns an [`Answer`], a [`Session`] keeps its connection;
//!   [`raw`] sends bytes; [`grpc`] speaks gRPC.
//! - [`Balancer`] stands in front of several servers.
//! - [`Authority`] issues the certificates that a test needs.
//! - [`eventually`] waits for asynchronous work of the service, with a deadline.
//! - [`servers`] are real: Redis, Redis Cluster and PostgreSQL, which a test may pause and kill. [`faults`]
//!   occur between them and the service: a proxy that delays, holds, cuts and refuses.
//! - [`TraceReceiver`] receives the traces that the service sends.
//! - [`load`] sends many requests and records them; [`history`] judges the record by the rules of the
//!   contract: nothing acknowledged is lost or duplicated, limits are exact, answers are in time.
//!
//! Any failure here fails the test that called it, with the whole answer in the message.
#![expect(
    clippy::expect_used,
    clippy::missing_panics_doc,
    clippy::panic,
    reason = "a test that cannot go on fails by panicking"
)]

mod answer;
mod balancer;
mod certificates;
mod client;
mod contract;
pub mod grpc;
pub mod history;
mod installation;
pub mod load;
mod random;
pub mod raw;
mod shop;
mod store_database;
mod tls;
mod trace_receiver;

pub use answer::{Answer, Rate};
pub use balancer::Balancer;
pub use certificates::{Authority, Certificate};
pub use client::{Client, Session};
pub use installation::{Exit, Installation, Server};
pub use petstore_admin_service::domain::Role;
pub use petstore_core::accounts::Plan;
pub use petstore_test_servers::{Engine, eventually, faults, free_port, servers};
pub use random::Random;
pub use shop::{SharedCounters, TestShop, account_message, administrator, grpc_addr};
pub use tls::{Protocol, Tls};
pub use trace_receiver::{ReceivedSpan, TraceReceiver};
