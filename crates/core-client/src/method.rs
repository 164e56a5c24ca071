//! Methods that can be called in batches.

use petstore_proto::internal::v1::{answer::Outcome, call::Method};

/// Unary method that may be called in a batch. It must be idempotent.
pub trait BatchedMethod {
    /// Message to the method.
    type Request: Clone + Send + 'static;
    /// Answer of the method.
    type Response: Send;
    /// `package.Service/Method`.
    const NAME: &'static str;
    /// `true` if the method changes something.
    const IS_WRITE: bool;
    /// Returns the message as a batch carries it.
    fn into_call(request: Self::Request) -> Method;
    /// Returns the answer from a batch; `None` if it belongs to another method.
    fn response(outcome: Outcome) -> Option<Self::Response>;
}
