//! Every way in which the core refuses or fails.

use std::{error::Error, time::Duration};

use petstore_api_key::Environment;

use super::{
    AccountName, BatchViolations, KeyId, KeyState, OperatorName, OrderId, OrderStatus, PetId, Role,
    Violation, Violations,
};

/// What a failure came from: for the log, never for the caller.
pub type Cause = Box<dyn Error + Send + Sync>;

/// Why a call was refused or failed. `Display` is safe to show to any client; the cause is the `source`.
#[derive(Debug, thiserror::Error)]
pub enum PetStoreError {
    /// Members of what the call describes are not allowed as they are.
    #[error("{0}")]
    Invalid(Violations),
    /// Members of pets of a batch are not allowed as they are.
    #[error("{0}")]
    InvalidBatch(BatchViolations),
    /// Parameters of the call are not allowed as they are.
    #[error("{0}")]
    InvalidParameter(Violations),
    /// The page token alone is not acceptable.
    #[error("{0}")]
    InvalidCursor(Violation),
    /// The idempotency key is not of the right form.
    #[error("{0}")]
    InvalidIdempotencyKey(Violation),
    /// The idempotency key was used for another pet.
    #[error("the request id was used for another pet")]
    IdempotencyKeyReused,
    /// A creation with that key is still in flight: the same call may be answered later.
    #[error("a request with this request id is still under way")]
    RequestInProgress,
    /// There is no such pet.
    #[error("there is no pet with the id {0}")]
    PetNotFound(PetId),
    /// There is no such order.
    #[error("there is no order with the id {0}")]
    OrderNotFound(OrderId),
    /// The order cannot take this step from where it is.
    #[error("order {id} is {from} and cannot become {to}")]
    InvalidOrderTransition {
        /// The order.
        id: OrderId,
        /// What it is.
        from: OrderStatus,
        /// What it was to become.
        to: OrderStatus,
    },
    /// The call carries no operator token, or one that is unknown or revoked.
    #[error("the call must carry the token of an operator as bearer credential, and this one is none")]
    InvalidOperatorToken,
    /// The address has sent too many credentials that are none, and this is one more.
    #[error("too many attempts with invalid credentials; try again in {} s", retry_after.as_secs())]
    TooManyAttempts {
        /// The time until the next attempt.
        retry_after: Duration,
    },
    /// Nobody could administer afterwards without the store itself, or not the caller: this has to be meant.
    #[error("{message}; repeat it with force if that is meant")]
    ForceRequired {
        /// The consequence.
        message: String,
    },
    /// The operator may only read.
    #[error("operator {operator} has the role {role}, which may not do this")]
    OperatorNotPermitted {
        /// The operator.
        operator: OperatorName,
        /// What it may do.
        role: Role,
    },
    /// There is no such operator.
    #[error("there is no operator {0}")]
    OperatorNotFound(OperatorName),
    /// The name is taken.
    #[error("there is already an operator {0}")]
    OperatorExists(OperatorName),
    /// The name is taken.
    #[error("there is already an account {0}")]
    AccountExists(AccountName),
    /// There is no such account.
    #[error("there is no account {0}")]
    AccountNotFound(AccountName),
    /// There is no account with such an identifier.
    #[error("there is no account with the id {0}")]
    AccountIdNotFound(i64),
    /// There is no such key.
    #[error("there is no key {0}")]
    KeyNotFound(KeyId),
    /// The key can no longer be used, so there is nothing to rotate.
    #[error("key {id} is {state}: create a new key instead")]
    KeyNotActive {
        /// The key.
        id: KeyId,
        /// Why not.
        state: KeyState,
    },
    /// The key belongs to another installation than the operator had in mind.
    #[error("key {id} is of {environment}")]
    KeyOfAnotherEnvironment {
        /// The key.
        id: KeyId,
        /// Its environment.
        environment: Environment,
    },
    /// The database is away, busy or full: the same call may succeed later.
    #[error("the store is not available at the moment")]
    Unavailable(#[source] Cause),
    /// More calls are under way than the core takes on: the same call may succeed later.
    #[error("the service has more work than it can take at the moment")]
    Overloaded,
    /// The call's deadline passed; whether it took effect is not known.
    #[error("the call took longer than its deadline allows")]
    DeadlineExceeded,
    /// A fault of the service itself.
    #[error("the service failed to answer")]
    Bug(#[source] Cause),
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
