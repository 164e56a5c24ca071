//! Observability: [`logs`], [`mod@metrics`] for Prometheus, [`traces`] over OTLP, and the states of
//! [`parts`]. Work whose caller leaves is recorded like any other ([`abandoned`]).

pub mod abandoned;
pub mod logs;
pub mod metrics;
pub mod parts;
pub mod traces;
