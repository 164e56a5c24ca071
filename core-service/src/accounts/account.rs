//! Accounts and their plans (docs/contract.md, 6.1).

use std::fmt;

use petstore_caller::{api_key::ApiKey, plans::Quota};
use petstore_clock::UnixMillis;

use super::{Remark, remark::NO_KEY};
use crate::{
    pages::PageSize,
    violations::{Violation, Violations},
};

/// Identifier of an account: positive, never assigned twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccountId(pub i64);

/// A holder of API keys, with a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Identifier, assigned by the store.
    pub id: AccountId,
    /// Name that operators use; unique.
    pub name: AccountName,
    /// Plan, which sets its limits.
    pub plan: Plan,
    /// Time of creation.
    pub created_at: UnixMillis,
    /// Revision of the last change of its plan, limits or keys.
    pub revision: i64,
    /// Suspension in force, if any.
    pub suspension: Option<Suspension>,
}

impl Account {
    /// Returns the account, suspended for this reason: from now on, or since it was suspended before.
    pub fn suspended(self, reason: Option<Remark>, now: UnixMillis) -> Self {
        let since = self.suspension.map_or(now, |suspension| suspension.since);
        Self { suspension: Some(Suspension { since, reason }), ..self }
    }
}

/// A suspension of an account: all its keys are refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suspension {
    /// Start of the suspension.
    pub since: UnixMillis,
    /// Reason, shown to the account's users.
    pub reason: Option<Remark>,
}

/// Changes to an account. `None` leaves a member unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccountUpdate {
    /// New name.
    pub name: Option<AccountName>,
    /// New plan, or new limits on the current plan.
    pub plan: Option<PlanUpdate>,
}

impl AccountUpdate {
    /// Returns the account after this change.
    ///
    /// # Errors
    ///
    /// If limits are set on a plan whose limits are fixed.
    pub fn apply_to(self, account: Account) -> Result<Account, Violation> {
        let plan = self.plan.map(|plan| plan.apply_to(account.plan)).transpose()?;
        let (name, plan) = (self.name.unwrap_or(account.name), plan.unwrap_or(account.plan));
        Ok(Account { name, plan, ..account })
    }
}

/// A change to an account's plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanUpdate {
    /// Another plan.
    Plan(Plan),
    /// Another plan, whose limits are fixed, from a client that sent back the whole account with limits. They
    /// must be those of the plan, or those that the account has.
    SentBack(Plan, Quota),
    /// Other limits, for an account on [`Plan::Enterprise`].
    Limits(Quota),
}

const TAKES_NO_LIMITS: &str = "must be enterprise to have its own limits";

impl PlanUpdate {
    /// Returns the plan after this change.
    ///
    /// # Errors
    ///
    /// If limits are set on a plan whose limits are fixed.
    fn apply_to(self, plan: Plan) -> Result<Plan, Violation> {
        match (self, plan) {
            (Self::Plan(plan), _) => Ok(plan),
            (Self::SentBack(new, limits), old) if limits == new.quota() || limits == old.quota() => Ok(new),
            (Self::SentBack(..), _) => Err(Violation::new("plan", TAKES_NO_LIMITS)),
            (Self::Limits(limits), Plan::Enterprise(_)) => Ok(Plan::Enterprise(limits)),
            (Self::Limits(_), _) => Err(Violation::new("limits", "can be set only on plan enterprise")),
        }
    }
}

/// Filters and position of a page of accounts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListAccounts {
    /// Maximum number of accounts.
    pub size: PageSize,
    /// Only accounts after this one.
    pub after: Option<AccountId>,
    /// Only accounts whose name contains this text, in any case.
    pub name_contains: Option<String>,
    /// Only accounts on the plan of this name.
    pub plan: Option<&'static str>,
    /// Only accounts that are suspended, or that are not.
    pub suspended: Option<bool>,
}

/// The name of an account: 1 to 64 ASCII letters, digits, `.`, `_` and `-`. It begins with a letter or a
/// digit, and contains no key material.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccountName(String);

impl AccountName {
    /// Maximum length in characters.
    pub const MAX_CHARS: usize = 64;

    /// Parses a name of the field `account`.
    ///
    /// # Errors
    ///
    /// If it is not such a name.
    pub fn parse(raw: &str) -> Result<Self, Violation> {
        Self::parse_field("account", raw)
    }

    /// Parses a name of the given field.
    ///
    /// # Errors
    ///
    /// If it is not such a name.
    pub fn parse_field(field: &'static str, raw: &str) -> Result<Self, Violation> {
        let rule = "must be 1 to 64 letters, digits, dots, underscores and hyphens, \
                    and begin with a letter or digit";
        Violation::check(!ApiKey::begins_in(raw), field, NO_KEY)?;
        let starts_well = raw.starts_with(|first: char| first.is_ascii_alphanumeric());
        let goes_on_well = raw.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
        Violation::check(starts_well && goes_on_well && raw.len() <= Self::MAX_CHARS, field, rule)?;
        Ok(Self(raw.to_owned()))
    }

    /// Returns the name as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns a name read from the store, without checking it.
    pub(crate) fn stored(name: String) -> Self {
        Self(name)
    }
}

impl fmt::Display for AccountName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A plan, which limits the requests of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// 60 requests a minute, 1,000 a day.
    Free,
    /// 300 requests a minute, 10,000 a day.
    Pro,
    /// 1,000 requests a minute, 100,000 a day.
    Business,
    /// Limits agreed with the account.
    Enterprise(Quota),
}

impl Plan {
    /// Maximum of an agreed limit, in requests.
    pub const MAX_LIMIT: u64 = 1_000_000_000;

    /// Names of the plans.
    pub const NAMES: [&'static str; 4] = ["free", "pro", "business", "enterprise"];

    /// Parses a plan. Enterprise needs both limits, each from 1 to [`Self::MAX_LIMIT`]. The limits of the
    /// other plans are fixed, so they take none.
    ///
    /// # Errors
    ///
    /// If a member is invalid. The error has every violation.
    pub fn parse(name: &str, per_minute: Option<u64>, per_day: Option<u64>) -> Result<Self, Violations> {
        let fixed = match name {
            "free" => Self::Free,
            "pro" => Self::Pro,
            "business" => Self::Business,
            "enterprise" => return Self::enterprise(per_minute, per_day),
            _ => return Err(Violation::new("plan", "must be one of free, pro, business, enterprise").into()),
        };
        match (per_minute, per_day) {
            (None, None) => Ok(fixed),
            _ => Err(Violation::new("plan", TAKES_NO_LIMITS).into()),
        }
    }

    fn enterprise(per_minute: Option<u64>, per_day: Option<u64>) -> Result<Self, Violations> {
        let agreed = |field, number: Option<u64>| match number {
            Some(number @ 1..=Self::MAX_LIMIT) => Ok(number),
            Some(_) => Err(Violation::new(field, "must be from 1 to 1000000000")),
            None => Err(Violation::new(field, "is required on plan enterprise")),
        };
        let mut violations = Violations::default();
        let per_minute = violations.gather(agreed("limits.perMinute", per_minute));
        let per_day = violations.gather(agreed("limits.perDay", per_day));
        match (per_minute, per_day) {
            (Some(per_minute), Some(per_day)) => Ok(Self::Enterprise(Quota { per_minute, per_day })),
            _ => Err(violations),
        }
    }

    /// Returns the number of `Plan` in the contracts.
    pub const fn number(self) -> i32 {
        match self {
            Self::Free => 1,
            Self::Pro => 2,
            Self::Business => 3,
            Self::Enterprise(_) => 4,
        }
    }

    /// Returns the plan's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Free => petstore_caller::plans::FREE.name,
            Self::Pro => petstore_caller::plans::PRO.name,
            Self::Business => petstore_caller::plans::BUSINESS.name,
            Self::Enterprise(_) => petstore_caller::plans::ENTERPRISE,
        }
    }

    /// Returns the plan's limits.
    pub const fn quota(self) -> Quota {
        match self {
            Self::Free => petstore_caller::plans::FREE.quota,
            Self::Pro => petstore_caller::plans::PRO.quota,
            Self::Business => petstore_caller::plans::BUSINESS.quota,
            Self::Enterprise(quota) => quota,
        }
    }

    /// Returns the agreed limits, or `None` for a plan whose limits are fixed.
    pub const fn agreed(self) -> Option<Quota> {
        if let Self::Enterprise(quota) = self { Some(quota) } else { None }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plans_have_the_numbers_of_the_contract() {
        let numbers = ["free", "pro", "business"].map(|name| {
            let quota = Plan::parse(name, None, None).unwrap().quota();
            (quota.per_minute, quota.per_day)
        });
        assert_eq!(numbers, [(60, 1_000), (300, 10_000), (1_000, 100_000)]);
    }

    #[test]
    fn every_plan_has_the_name_that_it_is_parsed_from() {
        for name in Plan::NAMES {
            let numbers = (name == "enterprise").then_some(1);
            assert_eq!(Plan::parse(name, numbers, numbers).unwrap().name(), name);
        }
        assert!(Plan::parse("Free", None, None).is_err());
    }

    #[test]
    fn enterprise_needs_two_finite_numbers() {
        let parse = |per_minute, per_day| Plan::parse("enterprise", per_minute, per_day);
        assert_eq!(
            parse(Some(500), Some(50)),
            Ok(Plan::Enterprise(Quota { per_minute: 500, per_day: 50 })),
            "the day's number may be the smaller one"
        );
        assert!(parse(Some(Plan::MAX_LIMIT), Some(1)).is_ok());
        assert_eq!(
            parse(None, Some(0)).unwrap_err().to_string(),
            "limits.perMinute is required on plan enterprise; limits.perDay must be from 1 to 1000000000"
        );
        assert!(parse(Some(Plan::MAX_LIMIT + 1), Some(1)).is_err());
    }

    #[test]
    fn the_other_plans_take_no_numbers() {
        for name in ["free", "pro", "business"] {
            for numbers in [(Some(1), None), (None, Some(1)), (Some(1), Some(1))] {
                assert!(Plan::parse(name, numbers.0, numbers.1).is_err());
            }
        }
    }

    #[test]
    fn an_account_name_is_safe_in_logs_and_on_command_lines() {
        for name in ["first", "a", "7", "acme.co_2-x", &"a".repeat(64)] {
            assert!(AccountName::parse(name).is_ok(), "{name}");
        }
        for name in ["", "-a", ".a", "a b", "a/b", "ä", "a\n", &"a".repeat(65)] {
            assert!(AccountName::parse(name).is_err(), "{name}");
        }
    }
}
