//! Codes that never change: those of errors, which are the reasons of both contracts with their statuses on
//! every interface, and the numbers of lists in page tokens.

use http::StatusCode;
use tonic::Code;

use crate::{admin::v1::AdminErrorReason, v1::ErrorReason};

/// Error code, as clients see it.
#[derive(Clone, Copy, Debug)]
pub struct ErrorCode {
    /// Name: that of the reason without the prefix of its enum.
    pub name: &'static str,
    /// HTTP status. A code that only gRPC has gets the equivalent of its gRPC status.
    pub http: StatusCode,
    /// gRPC status; `None` if only HTTP or JSON can express the fault.
    pub grpc: Option<Code>,
    /// Advice on repeating the request.
    pub retry: Retry,
    /// `true` if the public port has a page about the code: not for those that only operators see.
    has_page: bool,
}

impl ErrorCode {
    /// Returns the path of the page about the code, on the public port.
    pub fn page(&self) -> Option<String> {
        self.has_page.then(|| format!("/docs/errors/{}", self.name))
    }
}

/// Condition under which the same request may succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// It may only succeed after a change.
    Never,
    /// A few retries with exponential backoff may succeed.
    Backoff,
    /// A retry may succeed after the seconds in `Retry-After`, which every such answer carries.
    After,
}

/// Declares an enum of errors, each with its text and its code in one row, and the method that returns the
/// code. A row without a code is an arm of that method.
#[macro_export]
macro_rules! errors {
    (
        $(#[$about:meta])*
        $vis:vis enum $name:ident {
            $($(#[$text:meta])* $error:ident $(($($tuple:tt)*))? $({$($members:tt)*})? $(=> $code:expr)?,)+
        }
        $(#[$doc:meta])*
        $access:vis fn $method:ident(&self) -> $result:ty { $($arms:tt)* }
    ) => {
        $(#[$about])*
        $vis enum $name {
            $($(#[$text])* $error $(($($tuple)*))? $({$($members)*})?,)+
        }

        impl $name {
            $(#[$doc])*
            $access fn $method(&self) -> $result {
                match self {
                    $($(Self::$error { .. } => $code,)?)+
                    $($arms)*
                }
            }
        }
    };
}

macro_rules! reasons {
    ($($reason:ident $prefix:literal $has_page:literal)*) => {$(
        impl $reason {
            /// Returns the code of this reason.
            pub fn code(self) -> ErrorCode {
                let (http, grpc, retry) = self.row();
                let name = self.as_str_name();
                let name = name.strip_prefix($prefix).unwrap_or(name);
                ErrorCode { name, http, grpc, retry, has_page: $has_page }
            }

            /// Returns the reason whose code has this name. `UNSPECIFIED` is never sent, and so is none.
            pub fn named(name: &str) -> Option<Self> {
                Self::from_str_name(&format!("{}{name}", $prefix)).filter(|it| *it != Self::Unspecified)
            }

            /// Returns every reason but `UNSPECIFIED`.
            pub fn all() -> impl Iterator<Item = Self> {
                (1..1_000).filter_map(|number| Self::try_from(number).ok()) // numbers may have gaps
            }
        }
    )*};
}

reasons! {
    ErrorReason "ERROR_REASON_" true
    AdminErrorReason "ADMIN_ERROR_REASON_" false
}

/// Statuses of a code, and advice on repeating the request.
type Row = (StatusCode, Option<Code>, Retry);

use Code as G;
use Retry::{After, Backoff, Never};
use StatusCode as H;

// Total, so that a new reason does not compile without a row.
#[rustfmt::skip]
impl ErrorReason {
    const fn row(self) -> Row {
        match self {
            Self::ValidationFailed          => (H::BAD_REQUEST, Some(G::InvalidArgument), Never),
            Self::InvalidParameter          => (H::BAD_REQUEST, Some(G::InvalidArgument), Never),
            Self::InvalidCursor             => (H::BAD_REQUEST, Some(G::InvalidArgument), Never),
            Self::InvalidRequest            => (H::BAD_REQUEST, Some(G::InvalidArgument), Never),
            Self::UnknownInput              => (H::BAD_REQUEST, None, Never),
            Self::MalformedJson             => (H::BAD_REQUEST, None, Never),
            Self::MissingApiKey             => (H::UNAUTHORIZED, None, Never),
            Self::InvalidApiKey             => (H::UNAUTHORIZED, None, Never),
            Self::ApiKeyRevoked             => (H::UNAUTHORIZED, None, Never),
            Self::ApiKeyExpired             => (H::UNAUTHORIZED, None, Never),
            Self::AccountSuspended          => (H::FORBIDDEN, None, Never),
            Self::InsufficientScope         => (H::FORBIDDEN, None, Never),
            Self::AddressNotAllowed         => (H::FORBIDDEN, None, Never),
            Self::InvalidIdempotencyKey     => (H::BAD_REQUEST, Some(G::InvalidArgument), Never),
            Self::IdempotencyInProgress     => (H::CONFLICT, Some(G::Aborted), After),
            Self::IdempotencyKeyReused      => (H::UNPROCESSABLE_ENTITY, Some(G::AlreadyExists), Never),
            Self::PetNotFound               => (H::NOT_FOUND, Some(G::NotFound), Never),
            Self::OrderNotFound             => (H::NOT_FOUND, Some(G::NotFound), Never),
            Self::InvalidOrderTransition    => (H::BAD_REQUEST, Some(G::FailedPrecondition), Never),
            Self::RouteNotFound             => (H::NOT_FOUND, Some(G::Unimplemented), Never),
            Self::MethodNotAllowed          => (H::METHOD_NOT_ALLOWED, None, Never),
            Self::RequestTimeout            => (H::REQUEST_TIMEOUT, None, Backoff),
            Self::OperationRemoved          => (H::GONE, None, Never),
            Self::OperationBrownout         => (H::GONE, None, Never),
            Self::BodyTooLarge              => (H::PAYLOAD_TOO_LARGE, Some(G::OutOfRange), Never),
            Self::UriTooLong                => (H::URI_TOO_LONG, None, Never),
            Self::UnsupportedMediaType      => (H::UNSUPPORTED_MEDIA_TYPE, Some(G::Unimplemented), Never),
            Self::HeadersTooLarge           => (H::REQUEST_HEADER_FIELDS_TOO_LARGE, None, Never),
            Self::RateLimited               => (H::TOO_MANY_REQUESTS, None, After),
            Self::QuotaExceeded             => (H::TOO_MANY_REQUESTS, None, After),
            Self::ApiKeyBanned              => (H::TOO_MANY_REQUESTS, None, After),
            Self::Unavailable               => (H::SERVICE_UNAVAILABLE, Some(G::Unavailable), After),
            Self::Overloaded                => (H::SERVICE_UNAVAILABLE, Some(G::Unavailable), After),
            Self::LimiterUnavailable        => (H::SERVICE_UNAVAILABLE, None, After),
            Self::DeadlineExceeded          => (H::GATEWAY_TIMEOUT, Some(G::DeadlineExceeded), Backoff),
            Self::UnsupportedTransferCoding => (H::NOT_IMPLEMENTED, None, Never),
            Self::Unspecified | Self::Internal => (H::INTERNAL_SERVER_ERROR, Some(G::Internal), Backoff),
        }
    }
}

#[rustfmt::skip]
impl AdminErrorReason {
    const fn row(self) -> Row {
        match self {
            Self::InvalidOperatorToken      => (H::UNAUTHORIZED, Some(G::Unauthenticated), Never),
            Self::OperatorNotPermitted      => (H::FORBIDDEN, Some(G::PermissionDenied), Never),
            Self::AccountNotFound           => (H::NOT_FOUND, Some(G::NotFound), Never),
            Self::AccountExists             => (H::CONFLICT, Some(G::AlreadyExists), Never),
            Self::KeyNotFound               => (H::NOT_FOUND, Some(G::NotFound), Never),
            Self::KeyNotActive              => (H::CONFLICT, Some(G::FailedPrecondition), Never),
            Self::KeyOfAnotherEnvironment   => (H::CONFLICT, Some(G::FailedPrecondition), Never),
            Self::OperatorNotFound          => (H::NOT_FOUND, Some(G::NotFound), Never),
            Self::OperatorExists            => (H::CONFLICT, Some(G::AlreadyExists), Never),
            Self::TooManyAttempts           => (H::TOO_MANY_REQUESTS, Some(G::ResourceExhausted), After),
            Self::ForceRequired             => (H::CONFLICT, Some(G::FailedPrecondition), Never),
            Self::Unspecified               => (H::INTERNAL_SERVER_ERROR, Some(G::Internal), Never),
        }
    }
}

/// Numbers of the public lists in page tokens, which gateway and core both read. A filter of a list is added
/// to its number, from 1 to 15.
pub mod lists {
    /// Pets, filtered by the number of a `PetStatus`.
    pub const PETS: u8 = 0x00;
    /// Orders.
    pub const ORDERS: u8 = 0x10;
}
