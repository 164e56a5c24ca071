//! Real servers and faults between processes, for tests of any crate. This crate does not depend on the
//! service.
//!
//! - [`servers`] are real: Redis, Redis Cluster and PostgreSQL, which a test may pause and kill; PgBouncer
//!   and HAProxy.
//! - [`Home`] is the place of one database, on the engine of the run.
//! - [`faults`] occur between two processes: a proxy that delays, holds, cuts and refuses.
//! - [`Logged`] collects the levels of log lines.
//! - [`eventually()`] waits for asynchronous work of a process, with a deadline.
//!
//! Any failure here fails the test that called it.
#![expect(
    clippy::expect_used,
    clippy::missing_panics_doc,
    clippy::panic,
    reason = "a test that cannot go on fails by panicking"
)]

mod engine;
mod eventually;
pub mod faults;
mod home;
mod log;
mod port;
pub mod servers;

pub use engine::Engine;
pub use eventually::eventually;
pub use home::Home;
pub use log::Logged;
pub use port::free_port;
