//! `petstore ban`: keys that are refused for a while. Bans are in the store; gateways receive them within
//! seconds, also if they count in Redis.

use std::time::Duration;

use clap::Subcommand;
use serde_json::json;

use crate::{
    admin::{self, AdminSettings},
    error::CliError,
    output::{Column, column, sentence, table},
    settings::duration,
};

#[derive(Debug, Subcommand)]
pub(crate) enum BanCommand {
    /// List the bans in force, the newest first
    List {
        #[command(flatten)]
        settings: AdminSettings,
    },
    /// Lift the ban of a key; running gateways follow within 5 seconds
    Lift {
        /// The identifier that `petstore key list` shows
        id: String,
        #[command(flatten)]
        settings: AdminSettings,
    },
    /// Ban a key from now on; running gateways follow within 5 seconds
    Add {
        /// The identifier that `petstore key list` shows
        id: String,
        /// How long, as in 1h, at most 366d. The next automatic ban of the key is twice as long, up to a day
        #[arg(long = "for", value_parser = duration::parse, value_name = "TIME")]
        length: Duration,
        /// Why, in up to 200 characters. The owner of the key sees it in each refusal, and `ban list` shows
        /// it
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
        #[command(flatten)]
        settings: AdminSettings,
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

pub(crate) fn run(verb: BanCommand) -> Result<(), CliError> {
    match verb {
        BanCommand::List { settings } => {
            settings.list("ListBans", &json!({}), usize::MAX, |page| table(COLUMNS, &page["bans"]))
        }
        BanCommand::Lift { id, settings } => {
            settings.run("LiftBan", &json!({ "keyId": id }), |_| format!("key {id} is not banned\n"))
        }
        BanCommand::Add { id, length, reason, settings } => {
            let request = json!({ "keyId": id, "duration": admin::seconds(length), "reason": reason });
            settings.run("CreateBan", &request, |ban| sentence("key {keyId} is banned until {endTime}", ban))
        }
    }
}
