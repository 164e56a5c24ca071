//! Observability: [`logs`], [`mod@metrics`] for Prometheus, and [`traces`] over OTLP.

pub mod logs;
pub mod metrics;
pub mod traces;
