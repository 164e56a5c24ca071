//! Observability: [`logs`], [`mod@metrics`] for Prometheus, [`traces`] over OTLP, and the states of [`parts`].

pub mod logs;
pub mod metrics;
pub mod parts;
pub mod traces;
