//! `petstore account` and `petstore brownout`: accounts and their plans, and rehearsals of the removal of
//! getPet, which gateways receive within seconds.

use std::time::Duration;

use clap::{
    Subcommand,
    builder::{NonEmptyStringValueParser, PossibleValuesParser},
};
use petstore_clock::format_duration;
use petstore_command_line::output::{Column, Confirmation, column, table};
use petstore_core::accounts::Plan;
use petstore_settings::value::{duration, whole_number};
use serde_json::{Value, json};

use crate::{client::AdminCommand, error::CommandError};

#[derive(Debug, Subcommand)]
pub enum AccountCommand {
    /// Create an account; `petstore key create` creates its keys
    Create {
        /// Name of the account: 1 to 64 letters, digits, dots, underscores and hyphens
        name: String,
        #[command(flatten)]
        plan: PlanSettings,
    },
    /// List the accounts
    List {
        /// Part of the names of the accounts to list, in upper or lower case
        #[arg(long, value_parser = NonEmptyStringValueParser::new(), value_name = "TEXT")]
        name: Option<String>,
        /// Plan of the accounts to list
        #[arg(long, value_parser = PossibleValuesParser::new(Plan::NAMES), value_name = "PLAN")]
        plan: Option<String>,
        /// List only suspended accounts
        #[arg(long)]
        suspended: bool,
    },
    /// Show one account
    Show {
        /// Name of the account
        name: String,
    },
    /// Move an account to another plan; running gateways follow within 5 seconds
    SetPlan {
        /// Name of the account
        name: String,
        #[command(flatten)]
        plan: PlanSettings,
    },
    /// Rename an account
    Rename {
        /// Name of the account
        name: String,
        /// New name of the account
        new_name: String,
    },
    /// Refuse all keys of an account until it is resumed; running gateways follow within 5 seconds
    Suspend {
        /// Name of the account
        name: String,
        /// Reason, in up to 200 characters, which every refusal of its requests shows
        #[arg(long, default_value = "", hide_default_value = true, value_name = "TEXT")]
        reason: String,
        #[command(flatten)]
        confirmation: Confirmation,
    },
    /// End the suspension of an account; running gateways follow within 5 seconds
    Resume {
        /// Name of the account
        name: String,
    },
}

#[derive(Clone, Debug, clap::Args)]
pub struct PlanSettings {
    /// Plan of the account, which decides its limits
    #[arg(long, value_parser = PossibleValuesParser::new(Plan::NAMES), value_name = "PLAN")]
    plan: String,

    /// Requests per minute; required for plan enterprise, and only there
    #[arg(long, value_parser = whole_number(1..=Plan::MAX_LIMIT), value_name = "N")]
    #[arg(required_if_eq("plan", "enterprise"))]
    per_minute: Option<u64>,

    /// Requests per UTC day; required for plan enterprise, and only there
    #[arg(long, value_parser = whole_number(1..=Plan::MAX_LIMIT), value_name = "N")]
    #[arg(required_if_eq("plan", "enterprise"))]
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

pub(crate) fn run_account(
    AdminCommand { command, settings }: AdminCommand<AccountCommand>,
) -> Result<(), CommandError> {
    match command {
        AccountCommand::Create { name, plan } => {
            let mut account = plan.members();
            account["name"] = name.into();
            let request = json!({ "account": account });
            settings.say("CreateAccount", &request, "created account {name} on plan {plan}")
        }
        AccountCommand::List { name, plan, suspended } => {
            let suspended = suspended.then_some(true);
            let request = json!({ "nameContains": name, "plan": plan, "suspended": suspended });
            settings.list("ListAccounts", &request, COLUMNS)
        }
        AccountCommand::Show { name } => settings.show("GetAccount", &json!({ "account": name }), COLUMNS),
        AccountCommand::SetPlan { name, plan } => {
            let values = plan.members();
            let mask = if values["limits"].is_null() { "plan" } else { "plan,limits" };
            let request = json!({ "account": name, "values": values, "updateMask": mask });
            settings.say("UpdateAccount", &request, "account {name} is on plan {plan}")
        }
        AccountCommand::Rename { name, new_name } => {
            let request = json!({ "account": name, "values": { "name": new_name }, "updateMask": "name" });
            settings.say("UpdateAccount", &request, "account {account} is now {name}")
        }
        AccountCommand::Suspend { name, reason, confirmation } => {
            confirmation.ask(&format!("refuse all keys of account {name} until it is resumed?"))?;
            let request = json!({ "account": name, "reason": reason });
            settings.say("SuspendAccount", &request, "account {name} is suspended")
        }
        AccountCommand::Resume { name } => {
            let request = json!({ "account": name });
            settings.say("ResumeAccount", &request, "account {name} is not suspended")
        }
    }
}

#[derive(Debug, Subcommand)]
pub enum BrownoutCommand {
    /// Plan a brownout; running gateways know it within 5 seconds
    Create {
        /// Name of the account; without it, every account
        #[arg(long, value_parser = NonEmptyStringValueParser::new(), value_name = "NAME")]
        account: Option<String>,
        /// Time at which it starts (RFC 3339), as in 2026-12-01T09:00:00Z; without it, now
        #[arg(long, value_parser = NonEmptyStringValueParser::new(), value_name = "TIME")]
        from: Option<String>,
        /// Length, as in 10m, at most 7d
        #[arg(long = "for", value_parser = duration, value_name = "TIME")]
        length: Duration,
    },
    /// List the brownouts that are planned or in force
    List,
    /// Cancel a brownout, or end it; running gateways follow within 5 seconds
    Cancel {
        /// Identifier of the brownout, from `petstore brownout list`
        id: i64,
    },
}

const BROWNOUTS: &[Column] = &[
    column("ID", "id"),
    column("OPERATION", "operationId"),
    column("ACCOUNT", "account"),
    column("FROM", "startTime"),
    column("UNTIL", "endTime"),
];

pub(crate) fn run_brownout(
    AdminCommand { command, settings }: AdminCommand<BrownoutCommand>,
) -> Result<(), CommandError> {
    match command {
        BrownoutCommand::Create { account, from, length } => {
            let request =
                json!({ "account": account, "startTime": from, "duration": format_duration(length) });
            let whose = if account.is_some() { "account {account}" } else { "all accounts" };
            let said = format!(
                "brownout {{id}}: {{operationId}} is off for {whose} from {{startTime}} to {{endTime}}"
            );
            settings.say("CreateBrownout", &request, &said)
        }
        BrownoutCommand::List => {
            let answer = settings.call("ListBrownouts", &json!({}))?;
            settings.print(&answer, |answer| table(BROWNOUTS, &answer["brownouts"]))
        }
        BrownoutCommand::Cancel { id } => {
            let answer = settings.call("ListBrownouts", &json!({}))?;
            let mut planned = answer["brownouts"].as_array().into_iter().flatten();
            if !planned.any(|brownout| brownout["id"] == id) {
                let reason = format!("there is no brownout {id} that is planned or in force");
                return Err(CommandError::NotFound(reason));
            }
            settings.say("CancelBrownout", &json!({ "id": id }), "brownout {id} is not planned")
        }
    }
}
