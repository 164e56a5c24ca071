//! `petstore account`: accounts and their plans.

use clap::{Subcommand, builder::PossibleValuesParser};
use petstore_core::domain::Plan;
use serde_json::{Value, json};

use crate::{
    admin::AdminSettings,
    error::CliError,
    output::{Column, Confirmation, column, sentence, table},
    settings::value::whole_number,
};

#[derive(Debug, Subcommand)]
pub(crate) enum AccountCommand {
    /// Create an account; `petstore key create` creates its keys
    Create {
        /// Its name: 1 to 64 letters, digits, dots, underscores and hyphens
        name: String,
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
        name: String,
        #[command(flatten)]
        settings: AdminSettings,
    },
    /// Move an account to another plan; running gateways follow within 5 seconds
    SetPlan {
        /// The account's name
        name: String,
        #[command(flatten)]
        plan: PlanSettings,
        #[command(flatten)]
        settings: AdminSettings,
    },
    /// Rename an account
    Rename {
        /// The account's name
        name: String,
        /// Its new name
        new_name: String,
        #[command(flatten)]
        settings: AdminSettings,
    },
    /// Refuse all keys of an account until it is resumed; running gateways follow within 5 seconds
    Suspend {
        /// The account's name
        name: String,
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
        name: String,
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
    /// Returns the members of an account on this plan.
    fn members(&self) -> Value {
        let Self { plan, per_minute, per_day } = self;
        let has_limits = per_minute.is_some() || per_day.is_some();
        let limits = has_limits.then(|| json!({ "perMinute": per_minute, "perDay": per_day }));
        json!({ "plan": plan, "limits": limits })
    }
}

const COLUMNS: &[Column] = &[
    column("ID", "id"),
    column("NAME", "name"),
    column("PLAN", "plan"),
    column("PER MINUTE", "limits.perMinute"),
    column("PER DAY", "limits.perDay"),
    column("CREATED", "createTime"),
    column("SUSPENDED", "suspendTime").if_any(),
    column("REASON", "suspendReason").if_any(),
];

pub(crate) fn run(verb: AccountCommand) -> Result<(), CliError> {
    match verb {
        AccountCommand::Create { name, plan, settings } => {
            let mut account = plan.members();
            account["name"] = name.into();
            let request = json!({ "account": account });
            settings.run("CreateAccount", &request, |made| {
                sentence("created account {name} on plan {plan}", made)
            })
        }
        AccountCommand::List { name, plan, suspended, settings } => {
            let request = json!({
                "nameContains": name,
                "plan": plan,
                "suspended": suspended.then_some(true),
            });
            settings.list("ListAccounts", &request, usize::MAX, |page| table(COLUMNS, &page["accounts"]))
        }
        AccountCommand::Show { name, settings } => {
            settings.run("GetAccount", &json!({ "account": name }), |account| table(COLUMNS, account))
        }
        AccountCommand::SetPlan { name, plan, settings } => {
            let values = plan.members();
            let mask = if values["limits"].is_null() { "plan" } else { "plan,limits" };
            let request = json!({ "account": name, "values": values, "updateMask": mask });
            settings.run("UpdateAccount", &request, |now| sentence("account {name} is on plan {plan}", now))
        }
        AccountCommand::Rename { name, new_name, settings } => {
            let request = json!({ "account": name, "values": { "name": new_name }, "updateMask": "name" });
            settings.run("UpdateAccount", &request, |now| {
                sentence(&format!("account {name} is now {{name}}"), now)
            })
        }
        AccountCommand::Suspend { name, reason, confirmation, settings } => {
            confirmation.ask(&format!("refuse all keys of account {name} until it is resumed?"))?;
            let request = json!({ "account": name, "reason": reason });
            settings.run("SuspendAccount", &request, |now| sentence("account {name} is suspended", now))
        }
        AccountCommand::Resume { name, settings } => {
            let request = json!({ "account": name });
            settings.run("ResumeAccount", &request, |now| sentence("account {name} is not suspended", now))
        }
    }
}
