//! Errors of the administration.

use std::time::Duration;

use petstore_core::{
    errors::{PetStoreError, details_of},
    violations::{Violation, Violations},
};
use petstore_database::DatabaseError;
use petstore_grpc_server::{CallFault, MethodError};
use petstore_proto::{ErrorCode, admin::v1::AdminErrorReason as A, errors};
use sea_orm::DbErr;
use tonic::Code;
use tonic_types::ErrorDetails;

use crate::domain::{OperatorName, Role};

/// Result of the work of a method.
pub(crate) type Result<T, E = AdminError> = std::result::Result<T, E>;

errors! {
    /// Reason why a call of an operator was refused or failed. `Display` is safe to show to any client.
    #[derive(Debug, thiserror::Error)]
    pub enum AdminError {
        /// A call without an operator token.
        #[error("an operator token is required as bearer credential")]
        MissingOperatorToken => A::InvalidOperatorToken.code(),
        /// A call with an operator token that is unknown or revoked.
        #[error("this token is not valid: it is unknown, was revoked or replaced, or has expired")]
        InvalidOperatorToken => A::InvalidOperatorToken.code(),
        /// One more invalid credential from an address that has sent too many.
        #[error("too many attempts with invalid credentials; try again in {} s", retry_after.as_secs())]
        TooManyAttempts {
            /// Time until the next attempt.
            retry_after: Duration,
        } => A::TooManyAttempts.code(),
        /// A change after which only the store itself could administer the service, or the caller could not.
        /// It must be forced.
        #[error("{message}; send `force: true` to confirm")]
        ForceRequired {
            /// The consequence.
            message: String,
        } => A::ForceRequired.code(),
        /// An operator that may only read.
        #[error("operator {operator} has the role {role}, which may not do this")]
        OperatorNotPermitted {
            /// The operator.
            operator: OperatorName,
            /// The operator's role.
            role: Role,
        } => A::OperatorNotPermitted.code(),
        /// No such operator.
        #[error("there is no operator {0}")]
        OperatorNotFound(OperatorName) => A::OperatorNotFound.code(),
        /// An operator with this name exists.
        #[error("there is already an operator {0}")]
        OperatorExists(OperatorName) => A::OperatorExists.code(),
        /// An error of the core.
        #[error(transparent)]
        Core(#[from] PetStoreError),
    }

    /// Returns the code, which decides the status and the log level.
    pub(crate) fn code(&self) -> ErrorCode {
        Self::Core(error) => error.code(),
    }
}

macro_rules! from_errors_of_the_core {
    ($($error:ty)*) => {
        $(impl From<$error> for AdminError {
            fn from(error: $error) -> Self {
                Self::Core(error.into())
            }
        })*
    };
}

from_errors_of_the_core! { CallFault DatabaseError DbErr Violation Violations }

impl MethodError for AdminError {
    fn code(&self) -> &'static str {
        self.code().name
    }

    fn status(&self) -> Code {
        self.code().grpc.unwrap_or(Code::Internal) // every code that is sent has one
    }

    fn details(&self) -> ErrorDetails {
        let values = match self {
            Self::Core(error) => return error.details(),
            Self::TooManyAttempts { retry_after } => {
                vec![("retryAfterSeconds", retry_after.as_secs().to_string())]
            }
            Self::OperatorNotPermitted { operator, role } => {
                vec![("operator", operator.to_string()), ("role", role.to_string())]
            }
            Self::OperatorNotFound(name) | Self::OperatorExists(name) => vec![("operator", name.to_string())],
            _ => Vec::new(),
        };
        let mut details = details_of(&self.code(), values);
        if let Self::TooManyAttempts { retry_after } = self {
            details.set_retry_info(Some(*retry_after));
        }
        details
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operator_who_guessed_too_often_learns_when_to_return() {
        let retry_after = Duration::from_secs(7);
        let error = AdminError::TooManyAttempts { retry_after };
        assert_eq!(error.details().retry_info().unwrap().retry_delay, Some(retry_after));
        let details = error.details();
        let info = details.error_info().unwrap();
        assert_eq!((&*info.reason, &*info.metadata["retryAfterSeconds"]), ("TOO_MANY_ATTEMPTS", "7"));
    }
}
