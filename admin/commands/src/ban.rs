//! `petstore ban`: bans of keys, which are in the store. Gateways receive them within seconds.

use std::time::Duration;

use clap::Subcommand;
use petstore_clock::format_duration;
use petstore_command_line::output::{Column, column};
use petstore_settings::value::duration;
use serde_json::json;

use crate::{client::AdminCommand, error::CommandError};

#[derive(Debug, Subcommand)]
pub enum BanCommand {
    /// List the bans in force, the newest first
    List,
    /// Lift the ban of a key; running gateways follow within 5 seconds
    Lift {
        /// Identifier of the key, from `petstore key list`
        id: String,
    },
    /// Ban a key from now on; running gateways follow within 5 seconds
    Add {
        /// Identifier of the key, from `petstore key list`
        id: String,
        /// Length of the ban, as in 1h, at most 366d. The next automatic ban of the key is twice as long, but
        /// at least five minutes and at most a day
        #[arg(long = "for", value_parser = duration, value_name = "TIME")]
        length: Duration,
        /// Reason, in up to 200 characters, which every refusal of the key and `ban list` show
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
}

const COLUMNS: &[Column] = &[
    column("KEY", "keyId"),
    column("ACCOUNT", "account"),
    column("FROM", "createTime"),
    column("UNTIL", "endTime"),
    column("BY", "origin"),
    column("REASON", "reason"),
];

pub(crate) fn run(AdminCommand { command, settings }: AdminCommand<BanCommand>) -> Result<(), CommandError> {
    match command {
        BanCommand::List => settings.list("ListBans", &json!({}), COLUMNS),
        BanCommand::Lift { id } => {
            settings.say("LiftBan", &json!({ "keyId": id }), "key {keyId} is not banned")
        }
        BanCommand::Add { id, length, reason } => {
            let request = json!({ "keyId": id, "duration": format_duration(length), "reason": reason });
            settings.say("CreateBan", &request, "key {keyId} is banned until {endTime}")
        }
    }
}
