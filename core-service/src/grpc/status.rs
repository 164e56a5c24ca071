//! The gRPC status of a failure, and its line in the log.

use std::{error::Error, time::Duration};

use petstore_proto::ERROR_DOMAIN;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use crate::domain::{PetStoreError, Violation};

/// Returns the status for a failure of the call `rpc`, which its caller may have named. If the cause concerns
/// an operator, it is logged here, and only here.
pub(super) fn to_status(rpc: &'static str, call_id: Option<&str>, error: &PetStoreError) -> Status {
    log(rpc, call_id, error);
    without_log(call_id, error)
}

/// Returns the status without logging, for a failure that has no cause and that any caller could repeat at
/// will.
pub(super) fn without_log(call_id: Option<&str>, error: &PetStoreError) -> Status {
    let mut details = ErrorDetails::new();
    details.set_error_info(error.code().name, ERROR_DOMAIN, [] as [(String, String); 0]);
    if let Some(call_id) = call_id {
        details.set_request_info(call_id, "");
    }
    match error {
        PetStoreError::Invalid(violations) | PetStoreError::InvalidParameter(violations) => {
            violations.iter().for_each(|violation| add_violation(&mut details, violation));
        }
        PetStoreError::InvalidBatch(violations) => {
            violations.iter().for_each(|(field, rule)| {
                details.add_bad_request_violation(field, rule);
            });
        }
        PetStoreError::InvalidCursor(violation) | PetStoreError::InvalidIdempotencyKey(violation) => {
            add_violation(&mut details, violation);
        }
        PetStoreError::Unavailable(_) | PetStoreError::Overloaded | PetStoreError::RequestInProgress => {
            details.set_retry_info(Some(Duration::from_secs(1)));
        }
        PetStoreError::TooManyAttempts { retry_after } => {
            details.set_retry_info(Some(*retry_after));
        }
        _ => {}
    }
    Status::with_error_details(grpc_code(error), error.to_string(), details)
}

/// Returns the gRPC code of a failure. Every code that the core sends has one.
pub(super) fn grpc_code(error: &PetStoreError) -> Code {
    error.code().grpc.unwrap_or(Code::Internal)
}

fn add_violation(details: &mut ErrorDetails, violation: &Violation) {
    details.add_bad_request_violation(violation.field, violation.rule);
}

/// Logs a failure. A fault of the service needs an operator, an outage may pass, and a refusal concerns only
/// its caller.
fn log(rpc: &'static str, call_id: Option<&str>, error: &PetStoreError) {
    let (cause, code) = (error.source().map(chain), error.code().name);
    match grpc_code(error) {
        Code::Internal => {
            tracing::error!(rpc, request_id = call_id, code, error = cause, "{rpc} failed: {error}");
        }
        Code::Unavailable | Code::DeadlineExceeded => {
            tracing::warn!(rpc, request_id = call_id, code, error = cause, "{rpc} failed: {error}");
        }
        _ => tracing::debug!(rpc, request_id = call_id, code, "{rpc} refused"),
    }
}

/// Returns the cause and its sources, each once: many libraries repeat the source in their own text.
fn chain(cause: &(dyn Error + 'static)) -> String {
    let mut text = cause.to_string();
    let mut next = cause.source();
    while let Some(source) = next {
        let source_text = source.to_string();
        if !text.contains(&source_text) {
            text = format!("{text}: {source_text}");
        }
        next = source.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Batch, NewPet, OrderId, OrderStatus, PetId, PetStatus, RawPet, Violations};

    fn violations() -> Violations {
        Violations::from(PetStatus::UNKNOWN)
    }

    #[test]
    fn every_failure_has_its_code_and_reason() {
        use PetStoreError as E;
        let transition = E::InvalidOrderTransition {
            id: OrderId(7),
            from: OrderStatus::Placed,
            to: OrderStatus::Delivered,
        };
        let cases: [(PetStoreError, Code, &str); 13] = [
            (E::Invalid(violations()), Code::InvalidArgument, "VALIDATION_FAILED"),
            (E::InvalidParameter(violations()), Code::InvalidArgument, "INVALID_PARAMETER"),
            (E::InvalidCursor(PetStatus::UNKNOWN), Code::InvalidArgument, "INVALID_CURSOR"),
            (E::InvalidIdempotencyKey(PetStatus::UNKNOWN), Code::InvalidArgument, "INVALID_IDEMPOTENCY_KEY"),
            (E::IdempotencyKeyReused, Code::AlreadyExists, "IDEMPOTENCY_KEY_REUSED"),
            (E::RequestInProgress, Code::Aborted, "IDEMPOTENCY_IN_PROGRESS"),
            (E::PetNotFound(PetId(7)), Code::NotFound, "PET_NOT_FOUND"),
            (E::OrderNotFound(OrderId(7)), Code::NotFound, "ORDER_NOT_FOUND"),
            (transition, Code::FailedPrecondition, "INVALID_ORDER_TRANSITION"),
            (E::Unavailable("secret".into()), Code::Unavailable, "UNAVAILABLE"),
            (E::Overloaded, Code::Unavailable, "OVERLOADED"),
            (E::DeadlineExceeded, Code::DeadlineExceeded, "DEADLINE_EXCEEDED"),
            (E::Bug("secret".into()), Code::Internal, "INTERNAL"),
        ];
        for (error, code, reason) in cases {
            let message = error.to_string();
            let invalid = code == Code::InvalidArgument;
            let status = to_status("Test", None, &error);
            let details = status.get_error_details();
            let info = details.error_info().unwrap();
            assert_eq!((status.code(), info.reason.as_str()), (code, reason));
            assert_eq!(info.domain, "petstore.v1");
            assert_eq!(status.message(), message);
            assert!(!message.contains("secret"), "{message}");
            let retry = details.retry_info().and_then(|info| info.retry_delay);
            let passes = matches!(code, Code::Unavailable | Code::Aborted);
            assert_eq!(retry, passes.then_some(Duration::from_secs(1)), "{reason}");
            assert_eq!(details.bad_request().is_some(), invalid, "{reason}");
        }
    }

    #[test]
    fn a_refusal_names_every_field() {
        let error = NewPet::parse(RawPet { category_id: None, ..RawPet::named("") }).unwrap_err().into();
        let status = to_status("CreatePet", None, &error);
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
        let pets = ["Rex", "", "Tom"].map(|name| NewPet::parse(RawPet::named(name)));
        let status = to_status("BatchCreatePets", None, &Batch::parse(pets.into_iter()).unwrap_err());
        let violations = status.get_error_details().bad_request().unwrap().field_violations.clone();
        let fields: Vec<_> = violations.iter().map(|violation| violation.field.as_str()).collect();
        assert_eq!(fields, ["requests[1].name"]);
    }

    #[test]
    fn an_operator_who_guessed_too_often_learns_when_to_return() {
        let retry_after = Duration::from_secs(7);
        let status = to_status("Test", None, &PetStoreError::TooManyAttempts { retry_after });
        assert_eq!(status.get_error_details().retry_info().unwrap().retry_delay, Some(retry_after));
    }

    #[test]
    fn a_cause_is_logged_with_its_sources_and_each_text_once() {
        #[derive(Debug, thiserror::Error)]
        #[error("{0}")]
        struct Layer(&'static str, #[source] std::io::Error);
        let refused = || std::io::Error::other("refused");
        assert_eq!(chain(&Layer("cannot connect", refused())), "cannot connect: refused");
        assert_eq!(chain(&Layer("the server refused it", refused())), "the server refused it");
    }
}
