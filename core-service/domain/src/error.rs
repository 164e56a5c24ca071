//! Errors of the core.

use std::error::Error;

use petstore_caller::api_key::Environment;
use petstore_grpc_server::CallFault;
use petstore_proto::{ErrorCode, admin::v1::AdminErrorReason as A, errors, v1::ErrorReason as R};

use super::{BatchViolations, Violation, Violations};

/// Underlying error: for the log, never for the caller.
pub type Cause = Box<dyn Error + Send + Sync>;

errors! {
    /// Reason why a call was refused or failed. `Display` is safe to show to any client; the cause is the
    /// `source`.
    #[derive(Debug, thiserror::Error)]
    pub enum PetStoreError {
        /// Invalid members of the described object.
        #[error("{0}")]
        Invalid(Violations) => R::ValidationFailed.code(),
        /// Invalid members of the pets of a batch.
        #[error("{0}")]
        InvalidBatch(BatchViolations) => R::ValidationFailed.code(),
        /// Invalid parameters of the call.
        #[error("{0}")]
        InvalidParameter(Violations) => R::InvalidParameter.code(),
        /// An invalid page token, and nothing else.
        #[error("{0}")]
        InvalidCursor(Violation) => R::InvalidCursor.code(),
        /// An idempotency key of the wrong form.
        #[error("{0}")]
        InvalidIdempotencyKey(Violation) => R::InvalidIdempotencyKey.code(),
        /// An idempotency key that was used for another pet.
        #[error("the request id was used for another pet")]
        IdempotencyKeyReused => R::IdempotencyKeyReused.code(),
        /// A creation with that key is still in flight: the same call may succeed later.
        #[error("a request with this request id is still in progress")]
        RequestInProgress => R::IdempotencyInProgress.code(),
        /// No such pet.
        #[error("there is no pet with the id {0}")]
        PetNotFound(i64) => R::PetNotFound.code(),
        /// No such order.
        #[error("there is no order with the id {0}")]
        OrderNotFound(i64) => R::OrderNotFound.code(),
        /// A transition that the order's status does not allow.
        #[error("order {id} is {from} and cannot become {to}")]
        InvalidOrderTransition {
            /// The order.
            id: i64,
            /// Current status.
            from: String,
            /// Requested status.
            to: String,
        } => R::InvalidOrderTransition.code(),
        /// An account with this name exists.
        #[error("there is already an account {0}")]
        AccountExists(String) => A::AccountExists.code(),
        /// No such account.
        #[error("there is no account {0}")]
        AccountNotFound(String) => A::AccountNotFound.code(),
        /// No account with this identifier.
        #[error("there is no account with the id {0}")]
        AccountIdNotFound(i64) => A::AccountNotFound.code(),
        /// No such key.
        #[error("there is no key {0}")]
        KeyNotFound(String) => A::KeyNotFound.code(),
        /// A key that can no longer be used, so that there is nothing to rotate or ban.
        #[error("key {id} is {state}, which is final")]
        KeyNotActive {
            /// The key.
            id: String,
            /// The key's state.
            state: String,
        } => A::KeyNotActive.code(),
        /// A key of another installation than the operator intended.
        #[error("key {id} belongs to {environment}")]
        KeyOfAnotherEnvironment {
            /// The key.
            id: String,
            /// Its environment.
            environment: Environment,
        } => A::KeyOfAnotherEnvironment.code(),
        /// The database is unreachable, busy or full: the same call may succeed later.
        #[error("the store is not available at the moment")]
        Unavailable(#[source] Cause) => R::Unavailable.code(),
        /// A failure that does not depend on the method.
        #[error(transparent)]
        Call(#[from] CallFault),
        /// A fault of the service itself.
        #[error("the service failed to answer")]
        Bug(#[source] Cause) => R::Internal.code(),
    }

    /// Returns the code, which decides the status and the log level.
    pub fn code(&self) -> ErrorCode {
        Self::Call(fault) => match fault {
            CallFault::InvalidCall(_) => R::InvalidRequest.code(),
            CallFault::MessageTooLarge { .. } => R::BodyTooLarge.code(),
            CallFault::CompressedMessage => R::UnsupportedMediaType.code(),
            CallFault::UnknownMethod => R::RouteNotFound.code(),
            CallFault::Overloaded => R::Overloaded.code(),
            CallFault::DeadlineExceeded => R::DeadlineExceeded.code(),
            CallFault::Panicked(_) => R::Internal.code(),
        },
    }
}

impl From<Violations> for PetStoreError {
    fn from(violations: Violations) -> Self {
        Self::Invalid(violations)
    }
}

impl From<Violation> for PetStoreError {
    fn from(violation: Violation) -> Self {
        Self::Invalid(violation.into())
    }
}
