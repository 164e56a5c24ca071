//! A sample of each error, for tests.

use petstore_clock::UnixMillis;
use petstore_proto::v1::ErrorReason;
use petstore_rate_limit::{BanCause, BanPeriod, Decision, LimiterUnavailable, Outcome, Scope, WindowView};

use super::ApiError;

/// Returns an error with this reason. A refusal of the core has the documented message, since the core
/// chooses its text.
pub(crate) fn sample(reason: ErrorReason, documented: &str) -> ApiError {
    use ErrorReason as R;
    match reason {
        R::ValidationFailed => ApiError::ValidationFailed(
            "name must not be blank; status must be one of available, pending, sold".to_owned().into(),
        ),
        R::InvalidParameter => {
            ApiError::InvalidParameter("limit must be a whole number from 1 to 100".to_owned().into())
        }
        R::InvalidCursor => ApiError::InvalidCursor(
            "cursor must be the one returned with the previous page, unchanged".to_owned().into(),
        ),
        R::UnknownInput => {
            ApiError::UnknownInput("this operation does not have the parameter \"colour\"".to_owned().into())
        }
        R::InvalidRequest => ApiError::InvalidHost,
        R::MalformedJson => {
            ApiError::MalformedJson("the body must be JSON without duplicate members".to_owned())
        }
        R::MissingApiKey => ApiError::MissingApiKey,
        R::InvalidApiKey => ApiError::InvalidApiKey,
        R::ApiKeyRevoked => ApiError::ApiKeyRevoked,
        R::ApiKeyExpired => ApiError::ApiKeyExpired,
        R::AccountSuspended => ApiError::AccountSuspended { reason: "the invoice of October is open".into() },
        R::InsufficientScope => ApiError::InsufficientScope,
        R::AddressNotAllowed => ApiError::AddressNotAllowed,
        R::InvalidIdempotencyKey => ApiError::InvalidIdempotencyKey,
        R::IdempotencyInProgress => ApiError::IdempotencyInProgress { retry_after: None },
        R::IdempotencyKeyReused => ApiError::IdempotencyKeyReused,
        R::PetNotFound => ApiError::PetNotFound,
        R::RouteNotFound => ApiError::RouteNotFound,
        R::MethodNotAllowed => ApiError::MethodNotAllowed { allow: "GET, HEAD, OPTIONS".to_owned() },
        R::RequestTimeout => ApiError::RequestTimeout,
        R::OperationRemoved => ApiError::OperationRemoved,
        R::OperationBrownout => ApiError::OperationBrownout { until: UnixMillis::from_secs(1_795_204_800) },
        R::BodyTooLarge => ApiError::BodyTooLarge,
        R::UriTooLong => ApiError::UriTooLong,
        R::UnsupportedMediaType => ApiError::UnsupportedMediaType,
        R::HeadersTooLarge => ApiError::HeadersTooLarge,
        R::UnsupportedTransferCoding => ApiError::UnsupportedTransferCoding,
        R::RateLimited => ApiError::OverLimit(over_limit(Outcome::RateLimited), "requests"),
        R::QuotaExceeded => ApiError::OverLimit(over_limit(Outcome::QuotaExceeded), "requests"),
        R::ApiKeyBanned => {
            let ban = BanPeriod { from: NOW, until: UnixMillis::from_secs(1_795_201_518) };
            let decision = Decision { ban: Some(ban), ..over_limit(Outcome::RateLimited) };
            ApiError::Banned(Box::new(decision), BanCause::IgnoredRefusals)
        }
        R::Unavailable => ApiError::Unavailable { retry_after: None },
        R::Overloaded => ApiError::Overloaded { retry_after: None },
        R::LimiterUnavailable => LimiterUnavailable.into(),
        R::DeadlineExceeded => ApiError::DeadlineExceeded,
        R::Internal => ApiError::Internal,
        of_core => {
            assert!(of_core.code().grpc.is_some(), "{of_core:?} is of REST alone, and has no sample");
            ApiError::Core { reason: of_core, message: documented.to_owned().into(), retry_after: None }
        }
    }
}

/// Time at which the examples were refused.
const NOW: UnixMillis = UnixMillis::from_secs(1_795_201_218);

/// Returns a refusal on plan Free.
fn over_limit(outcome: Outcome) -> Decision {
    const MINUTE_END: UnixMillis = UnixMillis::from_secs(1_795_201_260);
    const DAY_END: UnixMillis = UnixMillis::from_secs(1_795_219_200);
    Decision {
        outcome,
        is_strike: false,
        struck_out_at: None,
        now: NOW,
        minute: WindowView { limit: 60, remaining: 0, resets_at: MINUTE_END },
        day: WindowView { limit: 1_000, remaining: 0, resets_at: DAY_END },
        ban: None,
        scope: Scope::Shared,
    }
}
