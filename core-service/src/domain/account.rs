//! Accounts and their plans (docs/contract.md, 6.1).

use std::{fmt, str::FromStr};

use petstore_api_key::ApiKey;
use petstore_clock::UnixMillis;
use petstore_plans::Quota;

use super::{PageSize, StatedReason, Violation, Violations, text::NO_KEY};

/// Identifies an account: positive, never assigned twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccountId(pub i64);

/// Who holds API keys and has a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Assigned by the store.
    pub id: AccountId,
    /// What operators call it; unique.
    pub name: AccountName,
    /// How much it may ask.
    pub plan: Plan,
    /// When it was created.
    pub created_at: UnixMillis,
    /// The revision of the last change of its plan, limits or keys.
    pub revision: i64,
    /// Since when all its keys are refused, if they are.
    pub suspension: Option<Suspension>,
}

/// All keys of an account are refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suspension {
    /// Since when.
    pub since: UnixMillis,
    /// Why, as the account's users are told.
    pub reason: Option<StatedReason>,
}

/// What is to change of an account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccountUpdate {
    /// Its name.
    pub name: Option<AccountName>,
    /// Its plan, or its limits on the plan that it has.
    pub plan: Option<PlanUpdate>,
}

/// What is to change of an account's plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanUpdate {
    /// Another plan.
    Plan(Plan),
    /// Other limits, of an account that is on [`Plan::Enterprise`].
    Limits(Quota),
}

impl PlanUpdate {
    /// The plan that comes of it.
    ///
    /// # Errors
    ///
    /// When the plan has limits of its own.
    pub(crate) fn apply_to(self, plan: Plan) -> Result<Plan, Violation> {
        match (self, plan) {
            (Self::Plan(plan), _) => Ok(plan),
            (Self::Limits(limits), Plan::Enterprise(_)) => Ok(Plan::Enterprise(limits)),
            (Self::Limits(_), Plan::Free | Plan::Pro | Plan::Business) => {
                Err(Violation::new("limits", "are for accounts on plan enterprise"))
            }
        }
    }
}

/// Which accounts a page of them shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListAccounts {
    pub(crate) size: PageSize,
    /// Only accounts that come after this one.
    pub(crate) after: Option<AccountId>,
    /// Only accounts whose name contains this, in upper or lower case.
    pub(crate) name_contains: Option<String>,
    /// Only accounts on the plan of this name.
    pub(crate) plan: Option<&'static str>,
    pub(crate) suspended: Option<bool>,
}

/// The name of an account: 1 to 64 ASCII letters, digits, `.`, `_` and `-`, the first a letter or a digit,
/// without key material.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccountName(String);

impl AccountName {
    /// The longest name.
    pub const MAX_CHARS: usize = 64;

    /// # Errors
    ///
    /// When it is not such a name.
    pub fn parse(raw: &str) -> Result<Self, Violation> {
        Self::parse_field("account", raw)
    }

    /// The same for a name in that field.
    pub(crate) fn parse_field(field: &'static str, raw: &str) -> Result<Self, Violation> {
        if ApiKey::begins_in(raw) {
            return Err(Violation::new(field, NO_KEY));
        }
        let starts_well = raw.starts_with(|first: char| first.is_ascii_alphanumeric());
        let goes_on_well = raw.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
        if starts_well && goes_on_well && raw.len() <= Self::MAX_CHARS {
            Ok(Self(raw.to_owned()))
        } else {
            Err(Violation::new(
                field,
                "must be 1 to 64 letters, digits, dots, underscores and hyphens, \
                 and begin with a letter or digit",
            ))
        }
    }

    /// As it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A name that the store kept.
    pub(crate) fn stored(name: String) -> Self {
        Self(name)
    }
}

impl fmt::Display for AccountName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for AccountName {
    type Err = Violation;

    fn from_str(raw: &str) -> Result<Self, Self::Err> {
        Self::parse(raw)
    }
}

/// How much an account may ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// 60 requests a minute, 1,000 a day.
    Free,
    /// 300 requests a minute, 10,000 a day.
    Pro,
    /// 1,000 requests a minute, 100,000 a day.
    Business,
    /// As agreed with the account.
    Enterprise(Quota),
}

impl Plan {
    /// The largest number that may be agreed upon.
    pub const MAX_LIMIT: u64 = 1_000_000_000;

    /// The names of the plans.
    pub const NAMES: [&'static str; 4] = ["free", "pro", "business", "enterprise"];

    /// The plan of that name. Enterprise needs both numbers, each from 1 to [`Self::MAX_LIMIT`]; the other
    /// plans have theirs, and take none.
    ///
    /// # Errors
    ///
    /// Everything that is wrong.
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
            _ => Err(Violation::new("plan", "must be enterprise to have numbers of its own").into()),
        }
    }

    fn enterprise(per_minute: Option<u64>, per_day: Option<u64>) -> Result<Self, Violations> {
        let agreed = |field, number: Option<u64>| match number {
            Some(number @ 1..=Self::MAX_LIMIT) => Ok(number),
            Some(_) => Err(Violation::new(field, "must be from 1 to 1000000000")),
            None => Err(Violation::new(field, "is required on plan enterprise")),
        };
        let mut violations = Violations::default();
        let per_minute = violations.gather(agreed("per-minute", per_minute));
        let per_day = violations.gather(agreed("per-day", per_day));
        match (per_minute, per_day) {
            (Some(per_minute), Some(per_day)) => Ok(Self::Enterprise(Quota { per_minute, per_day })),
            _ => Err(violations),
        }
    }

    /// The plan's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Free => petstore_plans::FREE.name,
            Self::Pro => petstore_plans::PRO.name,
            Self::Business => petstore_plans::BUSINESS.name,
            Self::Enterprise(_) => petstore_plans::ENTERPRISE,
        }
    }

    /// The plan's numbers.
    #[must_use]
    pub const fn quota(self) -> Quota {
        match self {
            Self::Free => petstore_plans::FREE.quota,
            Self::Pro => petstore_plans::PRO.quota,
            Self::Business => petstore_plans::BUSINESS.quota,
            Self::Enterprise(quota) => quota,
        }
    }

    /// The numbers that were agreed upon, if the plan is one for that.
    #[must_use]
    pub const fn agreed(self) -> Option<Quota> {
        match self {
            Self::Free | Self::Pro | Self::Business => None,
            Self::Enterprise(quota) => Some(quota),
        }
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
            "per-minute is required on plan enterprise; per-day must be from 1 to 1000000000"
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
