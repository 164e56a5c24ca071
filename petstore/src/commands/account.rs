//! `petstore account`: accounts and their plans.

use clap::{Subcommand, builder::PossibleValuesParser};
use petstore_clock::Clock;
use petstore_core::domain::{Account as Record, AccountName, Plan, Quota};
use serde_json::{Value, json};

use crate::{
    commands::store_command::StoreCommandSettings,
    error::CliError,
    output::columns,
    settings::{InvalidSetting, account_name, value::whole_number},
};

#[derive(Debug, Subcommand)]
pub(crate) enum Account {
    /// Create an account; `petstore key create` makes its keys
    Create {
        /// Its name: 1 to 64 letters, digits, dots, underscores and hyphens
        #[arg(value_parser = account_name)]
        name: AccountName,
        #[command(flatten)]
        plan: PlanSettings,
        #[command(flatten)]
        settings: StoreCommandSettings,
    },
    /// List every account
    List(StoreCommandSettings),
    /// Move an account to another plan; running gateways follow within 5 seconds
    SetPlan {
        /// The account's name
        #[arg(value_parser = account_name)]
        name: AccountName,
        #[command(flatten)]
        plan: PlanSettings,
        #[command(flatten)]
        settings: StoreCommandSettings,
    },
}

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct PlanSettings {
    /// The account's plan, which decides its limits
    #[arg(long, value_parser = PossibleValuesParser::new(Plan::NAMES), value_name = "PLAN")]
    plan: String,

    /// Requests per minute; required for plan enterprise, and only there
    #[arg(long, value_parser = whole_number(1..=Quota::MAX), value_name = "N")]
    per_minute: Option<u64>,

    /// Requests per UTC day; required for plan enterprise, and only there
    #[arg(long, value_parser = whole_number(1..=Quota::MAX), value_name = "N")]
    per_day: Option<u64>,
}

impl PlanSettings {
    fn plan(&self) -> Result<Plan, InvalidSetting> {
        Plan::parse(&self.plan, self.per_minute, self.per_day)
            .map_err(|violations| InvalidSetting::new("--plan", violations.to_string()))
    }
}

pub(crate) fn run(verb: Account) -> Result<(), CliError> {
    match verb {
        Account::Create { name, plan, settings } => {
            let plan = plan.plan()?;
            let now = Clock::system().now();
            let account =
                settings.on_store(async |store| Ok(store.accounts().create(&name, plan, now).await?))?;
            settings.print(
                || format!("created account {} on plan {}\n", account.name, account.plan),
                || json(&account),
            )
        }
        Account::List(settings) => {
            let accounts = settings.on_store(async |store| Ok(store.accounts().list().await?))?;
            settings.print(|| table(&accounts), || accounts.iter().map(json).collect())
        }
        Account::SetPlan { name, plan, settings } => {
            let plan = plan.plan()?;
            let now = Clock::system().now();
            let account =
                settings.on_store(async |store| Ok(store.accounts().set_plan(&name, plan, now).await?))?;
            settings.print(
                || format!("account {} is on plan {}\n", account.name, account.plan),
                || json(&account),
            )
        }
    }
}

fn table(accounts: &[Record]) -> String {
    let rows: Vec<_> = accounts
        .iter()
        .map(|account| {
            let quota = account.plan.quota();
            [
                account.id.0.to_string(),
                account.name.to_string(),
                account.plan.to_string(),
                quota.per_minute.to_string(),
                quota.per_day.to_string(),
                account.created_at.to_string(),
            ]
        })
        .collect();
    columns(["ID", "NAME", "PLAN", "PER MINUTE", "PER DAY", "CREATED"], &rows)
}

fn json(account: &Record) -> Value {
    let quota = account.plan.quota();
    json!({
        "id": account.id.0,
        "name": account.name.as_str(),
        "plan": account.plan.name(),
        "perMinute": quota.per_minute,
        "perDay": quota.per_day,
        "createdAt": account.created_at.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(name: &str, per_minute: Option<u64>, per_day: Option<u64>) -> Result<Plan, InvalidSetting> {
        PlanSettings { plan: name.to_owned(), per_minute, per_day }.plan()
    }

    #[test]
    fn only_enterprise_has_numbers_and_it_needs_both() {
        assert!(plan("free", None, None).is_ok());
        assert!(plan("enterprise", Some(7), Some(3)).is_ok());
        for refused in [
            plan("enterprise", Some(7), None),
            plan("enterprise", None, Some(3)),
            plan("pro", Some(7), Some(3)),
        ] {
            assert!(refused.unwrap_err().to_string().starts_with("--plan: "));
        }
    }
}
