//! `petstore brownout`: rehearsals of the removal of getPet, which are in the store. Gateways receive them
//! within seconds.

use std::time::Duration;

use clap::{Subcommand, builder::NonEmptyStringValueParser};
use petstore_clock::format_duration;
use petstore_command_line::output::{Column, column, table};
use petstore_settings::value::duration;
use serde_json::json;

use crate::{client::AdminCommand, error::CommandError};

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

const COLUMNS: &[Column] = &[
    column("ID", "id"),
    column("OPERATION", "operationId"),
    column("ACCOUNT", "account"),
    column("FROM", "startTime"),
    column("UNTIL", "endTime"),
];

pub(crate) fn run(
    AdminCommand { command, settings }: AdminCommand<BrownoutCommand>,
) -> Result<(), CommandError> {
    match command {
        BrownoutCommand::Create { account, from, length } => {
            let request =
                json!({ "account": account, "startTime": from, "duration": format_duration(length) });
            settings.say(
                "CreateBrownout",
                &request,
                "brownout {id}: {operationId} is off from {startTime} to {endTime}",
            )
        }
        BrownoutCommand::List => {
            let answer = settings.call("ListBrownouts", &json!({}))?;
            settings.print(&answer, |answer| table(COLUMNS, &answer["brownouts"]))
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
