//! What the service tells its operators while it runs: [`metrics`] that Prometheus scrapes, and [`traces`] that it sends
//! over OTLP.

pub mod metrics;
pub mod traces;
