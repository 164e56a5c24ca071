//! What the service tells its operators while it runs: its [`logs`], [`metrics`] that Prometheus scrapes, and
//! [`traces`] that it sends over OTLP.

pub mod logs;
pub mod metrics;
pub mod traces;
