//! Counts of requests, by UTC day and by minute, and the requests that gateways refused.

use petstore_caller::api_key::{ApiKey, is_request_id};
use petstore_clock::{Minute, UnixMillis};
pub use petstore_proto::internal::v1::RefusalCause;
use sea_orm::FromQueryResult;

use super::{AccountId, KeyId};
use crate::violations::Violation;

/// Maximum of any count: sums of several stay exact, also for clients whose numbers are doubles.
pub const MAX_COUNT: i64 = 1_000_000_000_000_000;

/// Account of requests that belong to none: no valid key came with them, the service could not check it, or
/// they count for no account.
pub(crate) const NO_ACCOUNT: AccountId = AccountId(0);

/// Numbers of requests by their response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromQueryResult)]
pub struct RequestCounts {
    /// Responses with 2xx.
    pub succeeded: i64,
    /// Responses with 4xx, except 429.
    pub client_errors: i64,
    /// Responses with 429.
    pub refused: i64,
    /// Responses with 5xx.
    pub server_errors: i64,
    /// Calls of the deprecated getPet, which are among the others too.
    pub get_pet: i64,
}

impl RequestCounts {
    /// Returns the counts in the order of their columns.
    pub(crate) const fn columns(self) -> [i64; 5] {
        let Self { succeeded, client_errors, refused, server_errors, get_pet } = self;
        [succeeded, client_errors, refused, server_errors, get_pet]
    }

    /// Returns the number of all requests.
    pub const fn total(self) -> i64 {
        self.admitted() + self.refused
    }

    /// Returns the number of requests that count against a limit per day (docs/contract.md, 6.3).
    pub(crate) const fn admitted(self) -> i64 {
        self.succeeded + self.client_errors + self.server_errors
    }

    /// Adds counts to these.
    pub fn add(&mut self, more: Self) {
        let Self { succeeded, client_errors, refused, server_errors, get_pet } = self;
        let sums = [succeeded, client_errors, refused, server_errors, get_pet];
        sums.into_iter().zip(more.columns()).for_each(|(sum, more)| *sum = sum.saturating_add(more));
    }
}

/// The requests of one minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsageMinute {
    /// The minute.
    pub minute: Minute,
    /// Key; `None` for requests of an account that count for their day alone, for those of no account, and in
    /// a sum over keys.
    pub key_id: Option<KeyId>,
    /// The numbers of requests.
    pub counts: RequestCounts,
}

impl UsageMinute {
    /// Creates the counts that a gateway reports.
    ///
    /// # Errors
    ///
    /// If the minute is not from 1970 to 9999, or a count is negative or above [`MAX_COUNT`].
    pub fn new(minute: Minute, key_id: Option<KeyId>, counts: RequestCounts) -> Result<Self, Violation> {
        let check = |holds, rule| Violation::check(holds, "requests", rule);
        let are = |holds: fn(&i64) -> bool| counts.columns().iter().all(holds);
        check(minute.is_valid(), "must have minutes from 1970 to 9999")?;
        check(are(|count| *count >= 0), "must not have negative numbers")?;
        check(are(|count| *count <= MAX_COUNT), "must not have counts above 1000000000000000")?;
        Ok(Self { minute, key_id, counts })
    }
}

/// A report of a gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsageReport {
    /// Requests by account, minute and key, each once.
    pub requests: Vec<(AccountId, UsageMinute)>,
    /// A sample of the requests that were refused.
    pub refusals: Vec<Refusal>,
    /// Number of refused requests by minute and cause, each once.
    pub refusal_counts: Vec<RefusalCount>,
}

/// Checks the name of a gateway's run: 1 to 64 visible ASCII characters.
///
/// # Errors
///
/// If the name is not of that form.
pub fn check_reporter(name: &str) -> Result<(), Violation> {
    let holds = (1..=64).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic());
    Violation::check(holds, "reporter", "must be 1 to 64 visible ASCII characters")
}

/// Checks that a request may have this id, by the same rule as gateways, which replace any other.
///
/// # Errors
///
/// If it may not.
pub fn check_request_id(id: &str) -> Result<(), Violation> {
    let rule = match id {
        id if is_request_id(id) => return Ok(()),
        id if ApiKey::begins_in(id) => "must not hold an API key or a token",
        _ => "must be 8 to 64 ASCII letters, digits, '.', '_' and '-'",
    };
    Err(Violation::new("requestId", rule))
}

/// Returns the cause of that number in the contract and in the database; `None` if this release does not know
/// it.
pub fn refusal_cause(number: i64) -> Option<RefusalCause> {
    let cause = RefusalCause::try_from(i32::try_from(number).ok()?).ok()?;
    Some(cause).filter(|cause| *cause != RefusalCause::Unspecified)
}

/// Returns the error code that clients received for that cause.
pub const fn refusal_code(cause: RefusalCause) -> &'static str {
    match cause {
        RefusalCause::MinuteLimit | RefusalCause::AddressLimit | RefusalCause::UsageLimit => "RATE_LIMITED",
        RefusalCause::DayLimit => "QUOTA_EXCEEDED",
        RefusalCause::LimiterBan | RefusalCause::OperatorBan => "API_KEY_BANNED",
        RefusalCause::AccountSuspended => "ACCOUNT_SUSPENDED",
        RefusalCause::KeyRevoked => "API_KEY_REVOKED",
        RefusalCause::KeyExpired => "API_KEY_EXPIRED",
        RefusalCause::InsufficientScope => "INSUFFICIENT_SCOPE",
        RefusalCause::AddressNotAllowed => "ADDRESS_NOT_ALLOWED",
        RefusalCause::InvalidKey => "INVALID_API_KEY",
        RefusalCause::MissingKey => "MISSING_API_KEY",
        RefusalCause::Unspecified => "", // never stored
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
    /// Creates a count.
    ///
    /// # Errors
    ///
    /// If the minute is not from 1970 to 9999, or the count is negative or above [`MAX_COUNT`].
    pub fn new(minute: Minute, cause: RefusalCause, requests: i64) -> Result<Self, Violation> {
        let rule = "must have minutes from 1970 to 9999 and counts that are not negative";
        let holds = minute.is_valid() && (0..=MAX_COUNT).contains(&requests);
        Violation::check(holds, "refusal_counts", rule)?;
        Ok(Self { minute, cause, requests })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_of_the_contract_has_its_number_and_a_code() {
        for number in 1..=13 {
            let cause = refusal_cause(number).unwrap();
            assert_eq!(i64::from(i32::from(cause)), number);
            assert_ne!(refusal_code(cause), "", "{cause:?}");
        }
        assert_eq!([0, 14, -1, i64::MAX].map(refusal_cause), [None; 4]);
    }
}
