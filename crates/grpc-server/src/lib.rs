//! A gRPC server whose calls are bounded: in number, bytes and time.
//!
//! # Promises
//!
//! - Each kind of work ([`Class`]) has its own capacity, of calls and of bytes in flight. A flood of one kind
//!   never leads to refusals of another, least of all of health. Calls over a capacity are refused at once.
//! - Each call has a deadline, which runs from its first byte. The answer is given a little before the
//!   caller's own deadline. A panic fails one call, and never its connection.
//! - A call whose caller leaves is finished within its bounds, so that it is counted and recorded.
//! - Each failure has a code in `google.rpc.ErrorInfo` ([`MethodError`]), including those that tonic reports
//!   alone, and is logged once, if it concerns an operator.
//! - A connection keeps its place from its first call with the required credentials on. Others, such as
//!   silent ones, give up theirs to new connections, the oldest first.
//! - A drain finishes the calls in flight, up to a deadline.
//!
//! How it fails: the server itself has the failures in [`CallFault`]; the program maps them to its codes, as
//! its own. Callers without the required credentials ([`Security`]) are refused with `UNAUTHENTICATED`.
//!
//! ```
//! use petstore_grpc_server::{
//!     MethodError, CallFault, Callers, Calls, Class, Limits, Method, Methods,
//! };
//! use tonic::{Code, Request};
//! use tonic_types::ErrorDetails;
//!
//! #[derive(Debug, thiserror::Error)]
//! #[error(transparent)]
//! struct GreetError(#[from] CallFault);
//!
//! impl MethodError for GreetError {
//!     fn code(&self) -> &'static str { "BUSY" }
//!     fn status(&self) -> Code { Code::Unavailable }
//!     fn details(&self) -> ErrorDetails { ErrorDetails::new() }
//! }
//!
//! const GREET: Method = Method {
//!     path: "example.v1.Greeter/Greet",
//!     callers: Callers::Clients,
//!     class: Class::Read,
//!     max_message: 1024,
//!     timeout: Some(std::time::Duration::from_secs(1)),
//!     is_polled: false,
//! };
//!
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! static METHODS: Methods = Methods { rows: &[GREET], rest: &GREET };
//! let calls = Calls::new::<GreetError>(&Limits::DEFAULT, METHODS);
//! let work = async |name: String| Ok::<_, GreetError>(format!("Hello, {name}"));
//! let capacity = calls.capacity(GREET.class);
//! let answer = calls.answer(capacity, &GREET, Request::new("Ann".to_owned()), work).await;
//! assert_eq!(answer.unwrap().into_inner(), "Hello, Ann");
//! # })
//! ```

mod access;
mod call;
mod capacity;
mod connection;
mod error;
mod methods;
mod receive;
mod reflection;
mod server;

pub use access::{InvalidTls, Peer, Security, TlsFiles};
pub use call::{Calls, take_context};
pub use capacity::Limits;
pub use connection::Listener;
pub use error::{CallFault, MethodError};
pub use methods::{Callers, Class, Method, Methods};
pub use server::{GrpcServerLimits, Probe, Served, serve};
