//! Errors of the core, their codes, statuses and details.

use std::{collections::HashMap, error::Error, time::Duration};

use petstore_caller::api_key::{Environment, redact};
use petstore_database::DatabaseError;
use petstore_grpc_server::{CallFault, MethodError};
use petstore_proto::{AdminErrorReason as A, ERROR_DOMAIN, ErrorCode, errors, v1::ErrorReason as R};
use sea_orm::DbErr;
use tonic::Code;
use tonic_types::ErrorDetails;

use crate::violations::{BatchViolations, Violation, Violations};

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
        /// Nothing with this identifier.
        #[error("there is no {} with the id {id}", id_field.trim_end_matches("Id"))]
        NotFound {
            /// The resource's own code.
            code: ErrorCode,
            /// Name of the identifier in JSON: that of the resource and `Id`.
            id_field: &'static str,
            /// The identifier.
            id: i64,
        },
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
        #[error("the database is not available at the moment")]
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
        Self::NotFound { code, .. } => *code,
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

impl From<DbErr> for PetStoreError {
    fn from(error: DbErr) -> Self {
        DatabaseError::from(error).into()
    }
}

impl From<DatabaseError> for PetStoreError {
    fn from(error: DatabaseError) -> Self {
        match error {
            DatabaseError::Unavailable(cause) => Self::Unavailable(cause),
            DatabaseError::Failed(error) => Self::Bug(error.into()),
            error @ DatabaseError::NumberTaken(_) => Self::Bug(error.into()),
        }
    }
}

impl MethodError for PetStoreError {
    fn code(&self) -> &'static str {
        self.code().name
    }

    fn status(&self) -> Code {
        self.code().grpc.unwrap_or(Code::Internal) // every code that the core sends has one
    }

    fn details(&self) -> ErrorDetails {
        let mut details = details_of(&self.code(), self.values());
        match self {
            Self::Invalid(violations) | Self::InvalidParameter(violations) => {
                violations.iter().for_each(|violation| add_violation(&mut details, violation));
            }
            Self::InvalidBatch(violations) => {
                violations.iter().for_each(|(field, rule)| {
                    details.add_bad_request_violation(field, rule);
                });
            }
            Self::InvalidCursor(violation) | Self::InvalidIdempotencyKey(violation) => {
                add_violation(&mut details, violation);
            }
            Self::Unavailable(_) | Self::Call(CallFault::Overloaded) | Self::RequestInProgress => {
                details.set_retry_info(Some(Duration::from_secs(1)));
            }
            _ => {}
        }
        details
    }
}

/// Returns the details that every failure has: its code, the values of its message, each under its name in
/// JSON, and the page about the code (AIP-193). The page is on the REST port, whose address a core does not
/// know. Values may be the caller's: a key among them is cut.
pub fn details_of(code: &ErrorCode, values: Vec<(&'static str, String)>) -> ErrorDetails {
    let values = values.into_iter().map(|(name, value)| (name.to_owned(), redact(&value).into_owned()));
    let mut details =
        ErrorDetails::with_error_info(code.name, ERROR_DOMAIN, values.collect::<HashMap<_, _>>());
    if let Some(page) = code.page() {
        details.add_help_link("The page about the code, on the REST port", page);
    }
    details
}

impl PetStoreError {
    /// Returns the values in the message that change from call to call, but not those of violations.
    fn values(&self) -> Vec<(&'static str, String)> {
        match self {
            Self::NotFound { id_field, id, .. } => vec![(id_field, id.to_string())],
            Self::InvalidOrderTransition { id, from, to } => {
                vec![("orderId", id.to_string()), ("from", from.clone()), ("to", to.clone())]
            }
            Self::AccountExists(name) | Self::AccountNotFound(name) => vec![("account", name.clone())],
            Self::KeyNotFound(id) => vec![("keyId", id.clone())],
            Self::KeyNotActive { id, state } => vec![("keyId", id.clone()), ("state", state.clone())],
            Self::KeyOfAnotherEnvironment { id, environment } => {
                vec![("keyId", id.clone()), ("environment", environment.to_string())]
            }
            Self::Call(CallFault::MessageTooLarge { max }) => vec![("maxBytes", max.to_string())],
            Self::Invalid(_)
            | Self::InvalidBatch(_)
            | Self::InvalidParameter(_)
            | Self::InvalidCursor(_)
            | Self::InvalidIdempotencyKey(_)
            | Self::IdempotencyKeyReused
            | Self::RequestInProgress
            | Self::Unavailable(_)
            | Self::Call(_)
            | Self::Bug(_) => Vec::new(),
        }
    }
}

fn add_violation(details: &mut ErrorDetails, violation: &Violation) {
    details.add_bad_request_violation(violation.field, violation.rule);
}

#[cfg(test)]
mod tests {
    use tonic::Status;
    use tonic_types::StatusExt;

    use super::*;
    use crate::{orders::OrderId, pets::PetId};

    const NOT_KNOWN: Violation = Violation::new("status", "must be one of available, pending, sold");

    /// Returns the status as a call answers it.
    fn to_status(error: &PetStoreError) -> Status {
        Status::with_error_details(error.status(), error.to_string(), error.details())
    }

    fn violations() -> Violations {
        Violations::from(NOT_KNOWN)
    }

    #[test]
    fn every_failure_has_its_code_and_reason() {
        use PetStoreError as E;
        let (from, to) = ("placed".to_owned(), "delivered".to_owned());
        let transition = E::InvalidOrderTransition { id: 7, from, to };
        let cases: [(PetStoreError, Code, &str); 13] = [
            (E::Invalid(violations()), Code::InvalidArgument, "VALIDATION_FAILED"),
            (E::InvalidParameter(violations()), Code::InvalidArgument, "INVALID_PARAMETER"),
            (E::InvalidCursor(NOT_KNOWN), Code::InvalidArgument, "INVALID_CURSOR"),
            (E::InvalidIdempotencyKey(NOT_KNOWN), Code::InvalidArgument, "INVALID_IDEMPOTENCY_KEY"),
            (E::IdempotencyKeyReused, Code::AlreadyExists, "IDEMPOTENCY_KEY_REUSED"),
            (E::RequestInProgress, Code::Aborted, "IDEMPOTENCY_IN_PROGRESS"),
            (PetId(7).not_found(), Code::NotFound, "PET_NOT_FOUND"),
            (OrderId(7).not_found(), Code::NotFound, "ORDER_NOT_FOUND"),
            (transition, Code::FailedPrecondition, "INVALID_ORDER_TRANSITION"),
            (E::Unavailable("secret".into()), Code::Unavailable, "UNAVAILABLE"),
            (CallFault::Overloaded.into(), Code::Unavailable, "OVERLOADED"),
            (CallFault::DeadlineExceeded.into(), Code::DeadlineExceeded, "DEADLINE_EXCEEDED"),
            (E::Bug("secret".into()), Code::Internal, "INTERNAL"),
        ];
        for (error, code, reason) in cases {
            let message = error.to_string();
            let invalid = code == Code::InvalidArgument;
            let status = to_status(&error);
            let details = status.get_error_details();
            let info = details.error_info().unwrap();
            assert_eq!((status.code(), info.reason.as_str()), (code, reason));
            assert_eq!(info.domain, "petstore.v1");
            let help = &details.help().unwrap().links[0];
            assert_eq!(help.url, format!("/docs/errors/{reason}"));
            assert_eq!(status.message(), message);
            assert!(!message.contains("secret"), "{message}");
            let retry = details.retry_info().and_then(|info| info.retry_delay);
            let passes = matches!(code, Code::Unavailable | Code::Aborted);
            assert_eq!(retry, passes.then_some(Duration::from_secs(1)), "{reason}");
            assert_eq!(details.bad_request().is_some(), invalid, "{reason}");
        }
    }

    #[test]
    fn a_failure_has_the_values_of_its_message_without_keys() {
        let values = |error: &PetStoreError| {
            let details = error.details();
            let metadata = &details.error_info().unwrap().metadata;
            let mut values: Vec<_> = metadata.iter().map(|(name, value)| format!("{name}={value}")).collect();
            values.sort_unstable();
            values.join(" ")
        };
        assert_eq!(values(&PetId(7).not_found()), "petId=7");
        let (from, to) = ("placed".to_owned(), "delivered".to_owned());
        let transition = PetStoreError::InvalidOrderTransition { id: 7, from, to };
        assert_eq!(values(&transition), "from=placed orderId=7 to=delivered");
        assert_eq!(values(&CallFault::MessageTooLarge { max: 5 }.into()), "maxBytes=5");
        let unknown = PetStoreError::AccountNotFound("pet_live_0000".to_owned());
        assert_eq!(values(&unknown), "account=pet_live_…");
        assert!(unknown.details().help().is_none(), "clients have no page about codes of operators");
        assert_eq!(values(&PetStoreError::Bug("secret".into())), "");
    }

    #[test]
    fn a_refusal_names_every_field() {
        let mut violations = Violations::default();
        for (field, rule) in [("name", "must not be blank"), ("categoryId", "is required")] {
            assert_eq!(violations.gather(Err::<(), _>(Violation::new(field, rule))), None);
        }
        let status = to_status(&violations.into());
        assert_eq!(status.message(), "name must not be blank; categoryId is required");
        let fields = status.get_error_details().bad_request().unwrap().field_violations.clone();
        let fields: Vec<_> =
            fields.into_iter().map(|violation| (violation.field, violation.description)).collect();
        assert_eq!(
            fields,
            [
                ("name".to_owned(), "must not be blank".to_owned()),
                ("categoryId".to_owned(), "is required".to_owned())
            ]
        );
    }

    #[test]
    fn a_refused_batch_names_every_field_with_its_index() {
        let mut violations = BatchViolations::default();
        violations.add(1, Violation::new("name", "must not be blank").into());
        let status = to_status(&PetStoreError::InvalidBatch(violations));
        let violations = status.get_error_details().bad_request().unwrap().field_violations.clone();
        let fields: Vec<_> = violations.iter().map(|violation| violation.field.as_str()).collect();
        assert_eq!(fields, ["requests[1].name"]);
    }
}
