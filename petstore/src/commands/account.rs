//! `petstore account`: accounts and their plans.

use clap::{Subcommand, builder::PossibleValuesParser};
use petstore_core::domain::{AccountName, Plan};
use petstore_proto::admin::v1 as admin_v1;
use petstore_proto::admin::v1::{
    Account, CreateAccountRequest, GetAccountRequest, Limits, ListAccountsRequest, ResumeAccountRequest,
    SuspendAccountRequest, UpdateAccountRequest,
};
use prost_types::FieldMask;
use serde_json::{Value, json};
use tonic::Status;

use crate::{
    admin::{AdminSettings, PAGE_SIZE, all_pages, value_name, written},
    error::CliError,
    output::{Confirmation, columns},
    settings::{InvalidSetting, account_name, value::whole_number},
};

#[derive(Debug, Subcommand)]
pub(crate) enum AccountCommand {
    /// Create an account; `petstore key create` creates its keys
    Create {
        /// Its name: 1 to 64 letters, digits, dots, underscores and hyphens
        #[arg(value_parser = account_name)]
        name: AccountName,
        #[command(flatten)]
        plan: PlanSettings,
        #[command(flatten)]
        settings: AdminSettings,
    },
    /// List the accounts
    List {
        /// Only accounts whose name contains this, in upper or lower case
        #[arg(long, default_value = "", hide_default_value = true, value_name = "TEXT")]
        name: String,
        /// Only accounts on this plan
        #[arg(long, value_parser = PossibleValuesParser::new(Plan::NAMES), value_name = "PLAN")]
        plan: Option<String>,
        /// Only suspended accounts
        #[arg(long)]
        suspended: bool,
        #[command(flatten)]
        settings: AdminSettings,
    },
    /// Show one account
    Show {
        /// The account's name
        #[arg(value_parser = account_name)]
        name: AccountName,
        #[command(flatten)]
        settings: AdminSettings,
    },
    /// Move an account to another plan; running gateways follow within 5 seconds
    SetPlan {
        /// The account's name
        #[arg(value_parser = account_name)]
        name: AccountName,
        #[command(flatten)]
        plan: PlanSettings,
        #[command(flatten)]
        settings: AdminSettings,
    },
    /// Rename an account
    Rename {
        /// The account's name
        #[arg(value_parser = account_name)]
        name: AccountName,
        /// Its new name
        #[arg(value_parser = account_name)]
        new_name: AccountName,
        #[command(flatten)]
        settings: AdminSettings,
    },
    /// Refuse all keys of an account until it is resumed; running gateways follow within 5 seconds
    Suspend {
        /// The account's name
        #[arg(value_parser = account_name)]
        name: AccountName,
        /// Why, in up to 200 characters. Its users see it in each refusal
        #[arg(long, default_value = "", hide_default_value = true, value_name = "TEXT")]
        reason: String,
        #[command(flatten)]
        confirmation: Confirmation,
        #[command(flatten)]
        settings: AdminSettings,
    },
    /// End the suspension of an account; running gateways follow within 5 seconds
    Resume {
        /// The account's name
        #[arg(value_parser = account_name)]
        name: AccountName,
        #[command(flatten)]
        settings: AdminSettings,
    },
}

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct PlanSettings {
    /// The account's plan, which decides its limits
    #[arg(long, value_parser = PossibleValuesParser::new(Plan::NAMES), value_name = "PLAN")]
    plan: String,

    /// Requests per minute; required for plan enterprise, and only there
    #[arg(long, value_parser = whole_number(1..=Plan::MAX_LIMIT), value_name = "N")]
    per_minute: Option<u64>,

    /// Requests per UTC day; required for plan enterprise, and only there
    #[arg(long, value_parser = whole_number(1..=Plan::MAX_LIMIT), value_name = "N")]
    per_day: Option<u64>,
}

impl PlanSettings {
    fn plan(&self) -> Result<Plan, InvalidSetting> {
        Plan::parse(&self.plan, self.per_minute, self.per_day)
            .map_err(|violations| InvalidSetting::new("--plan", violations.to_string()))
    }

    /// An account of this name on this plan, for a request.
    fn account(&self, name: &AccountName) -> Result<Account, InvalidSetting> {
        let plan = self.plan()?;
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let quota = plan.quota();
        let limits = Limits { per_minute: number(quota.per_minute), per_day: number(quota.per_day) };
        let wire = match plan {
            Plan::Free => admin_v1::Plan::Free,
            Plan::Pro => admin_v1::Plan::Pro,
            Plan::Business => admin_v1::Plan::Business,
            Plan::Enterprise(_) => admin_v1::Plan::Enterprise,
        };
        Ok(Account {
            name: name.to_string(),
            plan: wire.into(),
            limits: (wire == admin_v1::Plan::Enterprise).then_some(limits),
            ..Account::default()
        })
    }
}

pub(crate) fn run(verb: AccountCommand) -> Result<(), CliError> {
    match verb {
        AccountCommand::Create { name, plan, settings } => {
            let account = Some(plan.account(&name)?);
            let account = settings.call(async |mut client| {
                Ok(client.create_account(CreateAccountRequest { account }).await?.into_inner().account)
            })?;
            changed(&settings, account, |account| {
                format!("created account {} on plan {}\n", account.name, plan_name(account))
            })
        }
        AccountCommand::List { name, plan, suspended, settings } => {
            let request = ListAccountsRequest {
                page_size: PAGE_SIZE,
                name_contains: name,
                plan: plan.as_deref().map_or(admin_v1::Plan::Unspecified, wire_plan).into(),
                suspended: suspended.then_some(true),
                page_token: String::new(),
            };
            let accounts = settings.call(async |client| {
                let page = async |page_token| {
                    let request = ListAccountsRequest { page_token, ..request.clone() };
                    let page = client.clone().list_accounts(request).await?.into_inner();
                    Ok((page.accounts, page.next_page_token))
                };
                Ok(all_pages(page).await?)
            })?;
            settings.print(|| table(&accounts), || accounts.iter().map(json).collect())
        }
        AccountCommand::Show { name, settings } => {
            let request = GetAccountRequest { account: name.to_string(), account_id: 0 };
            let account = settings
                .call(async |mut client| Ok(client.get_account(request).await?.into_inner().account))?;
            changed(&settings, account, |account| table(std::slice::from_ref(account)))
        }
        AccountCommand::SetPlan { name, plan, settings } => {
            let values = plan.account(&name)?;
            let account = update(&settings, &name, values, "plan")?;
            changed(&settings, account, |account| {
                format!("account {} is on plan {}\n", account.name, plan_name(account))
            })
        }
        AccountCommand::Rename { name, new_name, settings } => {
            let values = Account { name: new_name.to_string(), ..Account::default() };
            let account = update(&settings, &name, values, "name")?;
            changed(&settings, account, |account| format!("account {name} is now {}\n", account.name))
        }
        AccountCommand::Suspend { name, reason, confirmation, settings } => {
            confirmation.ask(&format!("refuse all keys of account {name} until it is resumed?"))?;
            let request = SuspendAccountRequest { account: name.to_string(), reason };
            let account = settings
                .call(async |mut client| Ok(client.suspend_account(request).await?.into_inner().account))?;
            changed(&settings, account, |account| format!("account {} is suspended\n", account.name))
        }
        AccountCommand::Resume { name, settings } => {
            let request = ResumeAccountRequest { account: name.to_string() };
            let account = settings
                .call(async |mut client| Ok(client.resume_account(request).await?.into_inner().account))?;
            changed(&settings, account, |account| format!("account {} is not suspended\n", account.name))
        }
    }
}

/// Changes one field of an account.
fn update(
    settings: &AdminSettings,
    name: &AccountName,
    values: Account,
    field: &str,
) -> Result<Option<Account>, CliError> {
    let request = UpdateAccountRequest {
        account: name.to_string(),
        values: Some(values),
        update_mask: Some(FieldMask { paths: vec![field.to_owned()] }),
    };
    settings.call(async |mut client| Ok(client.update_account(request).await?.into_inner().account))
}

/// Prints an account of an answer.
fn changed(
    settings: &AdminSettings,
    account: Option<Account>,
    text: impl FnOnce(&Account) -> String,
) -> Result<(), CliError> {
    let account = account.ok_or_else(|| Status::internal("the core's answer has no account"))?;
    settings.print(|| text(&account), || json(&account))
}

/// The plan of that name, which is one of the allowed ones.
fn wire_plan(name: &str) -> admin_v1::Plan {
    admin_v1::Plan::from_str_name(&format!("PLAN_{}", name.to_uppercase())).unwrap_or_default()
}

/// The plan as the command line names it.
pub(crate) fn plan_name(account: &Account) -> String {
    value_name(account.plan().as_str_name(), "PLAN_")
}

/// The limits of the account's plan.
pub(crate) fn limits(account: &Account) -> Limits {
    account.limits.unwrap_or_default()
}

fn table(accounts: &[Account]) -> String {
    let is_any_suspended = accounts.iter().any(|account| account.suspend_time.is_some());
    let rows: Vec<_> = accounts
        .iter()
        .map(|account| {
            let Limits { per_minute, per_day } = limits(account);
            let mut row = vec![
                account.id.to_string(),
                account.name.clone(),
                plan_name(account),
                per_minute.to_string(),
                per_day.to_string(),
                written(account.create_time.as_ref(), ""),
            ];
            if is_any_suspended {
                row.push(written(account.suspend_time.as_ref(), ""));
                row.push(account.suspend_reason.clone());
            }
            row
        })
        .collect();
    let mut head = vec!["ID", "NAME", "PLAN", "PER MINUTE", "PER DAY", "CREATED"];
    if is_any_suspended {
        head.extend(["SUSPENDED", "REASON"]);
    }
    columns(&head, &rows)
}

fn json(account: &Account) -> Value {
    let Limits { per_minute, per_day } = limits(account);
    let mut json = json!({
        "id": account.id,
        "name": account.name,
        "plan": plan_name(account),
        "perMinute": per_minute,
        "perDay": per_day,
        "createdAt": written(account.create_time.as_ref(), ""),
    });
    if account.suspend_time.is_some() {
        json["suspendedAt"] = written(account.suspend_time.as_ref(), "").into();
        json["suspendReason"] = account.suspend_reason.clone().into();
    }
    json
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
