//! The table of error codes (docs/contract.md, 8.6), and their explanations from `docs/errors.md`.

use http::StatusCode;
use petstore_proto::v1::ErrorReason;

/// Row of the table: one error code.
#[derive(Debug)]
pub(crate) struct ErrorCode {
    /// HTTP status. A code that only gRPC has gets the equivalent of its gRPC status.
    pub(crate) status: StatusCode,
    /// gRPC status; `None` if only HTTP or JSON can express the fault.
    pub(crate) grpc: Option<&'static str>,
    /// Advice on repeating the request.
    pub(crate) retry: Retry,
}

/// Condition under which the same request may succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retry {
    /// It may only succeed after a change.
    Never,
    /// A few retries with exponential backoff may succeed.
    Backoff,
    /// A retry may succeed after the seconds in `Retry-After`, which every such answer carries.
    After,
}

impl Retry {
    /// Returns the advice as a sentence. `` `…` `` is code.
    pub(crate) const fn sentence(self) -> &'static str {
        match self {
            Self::Never => "Not without a change: the same request is refused again.",
            Self::Backoff => "Yes, a few times, with exponential backoff.",
            Self::After => "Yes, after the seconds in `Retry-After`, and then with exponential backoff.",
        }
    }
}

/// Explanation of a code for people. `` `…` `` is code.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Explanation {
    pub(crate) meaning: &'static str,
    /// Advice for the client.
    pub(crate) remedy: &'static str,
    /// Advice for the operator; empty if the client alone has to act.
    pub(crate) operator: &'static str,
}

impl Explanation {
    /// Returns the party that has to act.
    pub(crate) const fn who_acts(&self) -> &'static str {
        if self.operator.is_empty() { "the client" } else { "the operator; the client waits" }
    }
}

pub(super) const REASON_PREFIX: &str = "ERROR_REASON_";

/// Returns the code: the name of a reason without its prefix.
pub(crate) fn code(reason: ErrorReason) -> &'static str {
    let name = reason.as_str_name();
    name.strip_prefix(REASON_PREFIX).unwrap_or(name)
}

/// Returns every reason but `UNSPECIFIED`, which is never sent.
pub(crate) fn all() -> impl Iterator<Item = ErrorReason> {
    const BOUND: i32 = 1_000; // far above the highest number in use; numbers may have gaps
    (1..BOUND).filter_map(|number| ErrorReason::try_from(number).ok())
}

/// Returns `true` if no REST operation can fail for this reason.
pub(crate) const fn is_grpc_only(reason: ErrorReason) -> bool {
    matches!(reason, ErrorReason::OrderNotFound | ErrorReason::InvalidOrderTransition)
}

/// Returns the path of the page about a code.
pub(crate) fn page_path(reason: ErrorReason) -> String {
    format!("/docs/errors/{}", code(reason))
}

/// Returns the section of `docs/errors.md` about a code.
pub(crate) fn explanation(reason: ErrorReason) -> Explanation {
    static GUIDE: &str = include_str!("../../../docs/errors.md");
    let code = code(reason);
    let sections = GUIDE.split("\n## ").skip(1);
    let own = sections.into_iter().find(|section| section.split(' ').next() == Some(code));
    let lines = own.unwrap_or_default().lines().skip(1).filter(|line| !line.is_empty());
    lines.fold(Explanation::default(), |mut explanation, line| {
        if let Some(remedy) = line.strip_prefix("- What to do: ") {
            explanation.remedy = remedy;
        } else if let Some(operator) = line.strip_prefix("- For the operator: ") {
            explanation.operator = operator;
        } else if explanation.meaning.is_empty() {
            explanation.meaning = line;
        }
        explanation
    })
}

/// Returns the row of a reason. Total, so that a new reason does not compile without one.
#[rustfmt::skip]
#[expect(clippy::match_same_arms, reason = "one row per code: a table")]
pub(crate) const fn row_of(reason: ErrorReason) -> ErrorCode {
    use ErrorReason as R;
    use Retry::{After, Backoff, Never};
    use StatusCode as S;
    const fn row(status: StatusCode, grpc: Option<&'static str>, retry: Retry) -> ErrorCode {
        ErrorCode { status, grpc, retry }
    }
    match reason {
        R::ValidationFailed => row(S::BAD_REQUEST, Some("INVALID_ARGUMENT"), Never),
        R::InvalidParameter => row(S::BAD_REQUEST, Some("INVALID_ARGUMENT"), Never),
        R::InvalidCursor => row(S::BAD_REQUEST, Some("INVALID_ARGUMENT"), Never),
        R::InvalidRequest => row(S::BAD_REQUEST, None, Never),
        R::MalformedJson => row(S::BAD_REQUEST, None, Never),
        R::MissingApiKey => row(S::UNAUTHORIZED, None, Never),
        R::InvalidApiKey => row(S::UNAUTHORIZED, None, Never),
        R::ApiKeyRevoked => row(S::UNAUTHORIZED, None, Never),
        R::ApiKeyExpired => row(S::UNAUTHORIZED, None, Never),
        R::AccountSuspended => row(S::FORBIDDEN, None, Never),
        R::InvalidIdempotencyKey => row(S::BAD_REQUEST, Some("INVALID_ARGUMENT"), Never),
        R::IdempotencyInProgress => row(S::CONFLICT, Some("ABORTED"), After),
        R::IdempotencyKeyReused => row(S::UNPROCESSABLE_ENTITY, Some("ALREADY_EXISTS"), Never),
        R::PetNotFound => row(S::NOT_FOUND, Some("NOT_FOUND"), Never),
        R::OrderNotFound => row(S::NOT_FOUND, Some("NOT_FOUND"), Never),
        R::InvalidOrderTransition => row(S::BAD_REQUEST, Some("FAILED_PRECONDITION"), Never),
        R::RouteNotFound => row(S::NOT_FOUND, None, Never),
        R::MethodNotAllowed => row(S::METHOD_NOT_ALLOWED, None, Never),
        R::RequestTimeout => row(S::REQUEST_TIMEOUT, None, Backoff),
        R::OperationRemoved => row(S::GONE, None, Never),
        R::BodyTooLarge => row(S::PAYLOAD_TOO_LARGE, None, Never),
        R::UriTooLong => row(S::URI_TOO_LONG, None, Never),
        R::UnsupportedMediaType => row(S::UNSUPPORTED_MEDIA_TYPE, None, Never),
        R::HeadersTooLarge => row(S::REQUEST_HEADER_FIELDS_TOO_LARGE, None, Never),
        R::RateLimited => row(S::TOO_MANY_REQUESTS, None, After),
        R::QuotaExceeded => row(S::TOO_MANY_REQUESTS, None, After),
        R::ApiKeyBanned => row(S::TOO_MANY_REQUESTS, None, After),
        R::Unavailable => row(S::SERVICE_UNAVAILABLE, Some("UNAVAILABLE"), After),
        R::Overloaded => row(S::SERVICE_UNAVAILABLE, Some("UNAVAILABLE"), After),
        R::LimiterUnavailable => row(S::SERVICE_UNAVAILABLE, Some("UNAVAILABLE"), After),
        R::DeadlineExceeded => row(S::GATEWAY_TIMEOUT, Some("DEADLINE_EXCEEDED"), Backoff),
        R::UnsupportedTransferCoding => row(S::NOT_IMPLEMENTED, None, Never),
        R::Unspecified | R::Internal => row(S::INTERNAL_SERVER_ERROR, Some("INTERNAL"), Backoff),
    }
}
