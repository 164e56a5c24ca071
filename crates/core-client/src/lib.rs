//! Calls to a gRPC service, the core, in the same process or across a network: their transport, their
//! deadlines, and the handling of lost answers and of a core that does not answer.
//!
//! # Promises
//!
//! - **Deadlines.** A call of [`CoreClient`] ends within 5 s, and carries the remaining time to the core.
//! - **Retries.** An idempotent call whose answer was lost is made once more, if the budget of retries allows
//!   it. Others are never sent twice.
//! - **Batches.** Calls that wait at the same time are sent in one message. A call is sent at once if none is
//!   in flight, and a slow one delays no other.
//! - **Fairness.** Accounts take turns: the waiting calls of one account delay those of others by one turn.
//! - **Several cores.** [`connect()`] leads each call to the core with the fewest calls in flight. A core
//!   that does not answer gets no calls until it answers a probe.
//!
//! # Failures
//!
//! [`CallError`] is the one error of a call. While no core answers probes, calls fail at once
//! ([`CoreNotAnswering`]). A call that would wait for more than a second is [`CallError::Overloaded`].
//! [`is_transport_failure`] distinguishes a status that was made on this side from one of the core, and
//! [`failure_text`] is its cause in one line, for logs.
//!
//! # Example
//!
//! ```
//! use petstore_caller::call::RequestId;
//! use petstore_core_client::{CallError, CoreAddress, CoreClient, connect};
//! use petstore_proto::{rpc::GET_PET, v1::GetPetRequest};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let urls = vec!["http://127.0.0.1:1".to_owned()]; // no core listens there
//! let core = connect(CoreAddress { urls, tls: None, token: None }).expect("a valid URL");
//! let client = CoreClient::new(core, None);
//!
//! let request_id = RequestId::parse(&"request-1".parse().unwrap()).expect("fit for a log");
//! let (account_id, request) = (7, GetPetRequest { pet_id: 1 });
//! let answer = client.call(GET_PET, request, account_id, &request_id, |core, it| core.pets.get_pet(it));
//! assert!(matches!(answer.await, Err(CallError::Status(_))));
//! # }
//! ```

mod batch;
mod breaker;
mod client;
mod coalesced;
mod connect;
mod cores;
mod fair_queue;
mod permits;
mod remote;
mod retry;
mod traced;
mod transport;

pub use self::{
    breaker::{CoreBreaker, CoreNotAnswering},
    client::{CallError, CoreClient},
    connect::{CoreTls, InvalidCoreAddress},
    cores::{CoreAddress, connect},
    fair_queue::FairQueue,
    remote::CoreServices,
    retry::{RetryBudget, call_within, retry_once},
    traced::TracedTransport,
    transport::{
        CoreTransport, Refusals, ReportAnswers, TransportError, failure_text, is_transport_failure,
        named_reason,
    },
};
