//! Requests that gateways refused.

use petstore_clock::UnixMillis;

use super::{AccountId, KeyId, MAX_COUNT, Minute, Violation};

/// Cause of a refusal. The numbers are those of `petstore.admin.v1.RefusalCause`; the database keeps them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i32)]
pub enum RefusalCause {
    /// The limit of the minute.
    MinuteLimit = 1,
    /// The limit of the UTC day.
    DayLimit = 2,
    /// A ban that a gateway imposed.
    LimiterBan = 3,
    /// A ban that an operator imposed.
    OperatorBan = 4,
    /// The account is suspended.
    AccountSuspended = 5,
    /// The key was revoked.
    KeyRevoked = 6,
    /// The key has expired.
    KeyExpired = 7,
    /// The key does not exist.
    InvalidKey = 8,
    /// The request had no key.
    MissingKey = 9,
    /// The limit of an address, for requests without a valid key.
    AddressLimit = 10,
    /// The limit of an account's questions about its own usage.
    UsageLimit = 11,
}

impl RefusalCause {
    /// All causes.
    pub const ALL: [Self; 11] = [
        Self::MinuteLimit,
        Self::DayLimit,
        Self::LimiterBan,
        Self::OperatorBan,
        Self::AccountSuspended,
        Self::KeyRevoked,
        Self::KeyExpired,
        Self::InvalidKey,
        Self::MissingKey,
        Self::AddressLimit,
        Self::UsageLimit,
    ];

    /// Returns the cause's number in the contract and in the database.
    pub(crate) const fn number(self) -> i32 {
        self as i32
    }

    /// Returns the cause of that number; `None` if this release does not know it.
    pub(crate) fn from_number(number: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|cause| i64::from(cause.number()) == number)
    }

    /// Returns the error code that clients received.
    pub(crate) const fn code(self) -> &'static str {
        match self {
            Self::MinuteLimit | Self::AddressLimit | Self::UsageLimit => "RATE_LIMITED",
            Self::DayLimit => "QUOTA_EXCEEDED",
            Self::LimiterBan | Self::OperatorBan => "API_KEY_BANNED",
            Self::AccountSuspended => "ACCOUNT_SUSPENDED",
            Self::KeyRevoked => "API_KEY_REVOKED",
            Self::KeyExpired => "API_KEY_EXPIRED",
            Self::InvalidKey => "INVALID_API_KEY",
            Self::MissingKey => "MISSING_API_KEY",
        }
    }
}

/// A request that a gateway refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// `X-Request-Id` of the request.
    pub request_id: String,
    /// Time of the refusal.
    pub at: UnixMillis,
    /// Cause of the refusal.
    pub cause: RefusalCause,
    /// Account of the key, if the key is known.
    pub account: Option<AccountId>,
    /// Identifier of the key, if it is known.
    pub key_id: Option<KeyId>,
    /// Limit in requests per window, if one was exceeded.
    pub limit: Option<i64>,
    /// Start of the window or the ban, if any.
    pub since: Option<UnixMillis>,
    /// End of the window or the ban, if any.
    pub until: Option<UnixMillis>,
    /// Number of further requests refused for the same cause that are not stored themselves.
    pub repeats: i64,
}

/// Number of requests refused for one cause in a minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefusalCount {
    /// The minute.
    pub minute: Minute,
    /// Cause of the refusals.
    pub cause: RefusalCause,
    /// Number of refused requests.
    pub requests: i64,
}

impl RefusalCount {
    /// Makes a count.
    ///
    /// # Errors
    ///
    /// If the minute is not from 1970 to 9999, or the count is negative or above [`MAX_COUNT`].
    pub(crate) fn new(minute: Minute, cause: RefusalCause, requests: i64) -> Result<Self, Violation> {
        if minute.is_valid() && (0..=MAX_COUNT).contains(&requests) {
            Ok(Self { minute, cause, requests })
        } else {
            Err(Violation::new(
                "refusal_counts",
                "must have minutes from 1970 to 9999 and counts that are not negative",
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use petstore_proto::admin::v1 as pb;

    use super::*;

    #[test]
    fn the_causes_are_those_of_the_contract() {
        let contract: Vec<_> =
            (1..100).filter_map(|number| pb::RefusalCause::try_from(number).ok()).collect();
        let ours = RefusalCause::ALL.map(|cause| pb::RefusalCause::try_from(cause.number()).unwrap());
        assert_eq!(ours.to_vec(), contract);
        for (ours, theirs) in RefusalCause::ALL.into_iter().zip(contract) {
            let name = format!("{ours:?}");
            let theirs: String =
                theirs.as_str_name()["REFUSAL_CAUSE_".len()..].replace('_', "").to_lowercase();
            assert_eq!(name.to_lowercase(), theirs);
            assert_eq!(RefusalCause::from_number(i64::from(ours.number())), Some(ours));
        }
        assert_eq!((RefusalCause::from_number(0), RefusalCause::from_number(99)), (None, None));
    }
}
