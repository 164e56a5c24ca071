//! Calls to the core, in the same process or across a network: their transport, their deadlines, and the
//! handling of lost answers and of a core that does not answer.

mod batch;
mod breaker;
mod client;
mod coalesced;
mod connect;
mod cores;
mod methods;
mod permits;
mod refusals;
mod retry;
mod traced;
mod transport;

pub use client::InProcessCalls;
pub(crate) use client::{CoreClient, call_alone};
pub use connect::{CoreTls, InvalidCoreAddress};
pub use cores::{CoreAddress, connect};
pub(crate) use methods::METHODS;
pub(crate) use retry::{RetryBudget, call_within, retry_once};
pub use traced::TracedTransport;
pub(crate) use transport::ReportAnswers;
pub use transport::{CoreTransport, failure_text};
