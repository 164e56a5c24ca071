//! `petstore overview`: load of the service, and reasons of refusals.

use serde_json::{Value, json};

use crate::{
    admin::AdminSettings,
    commands::usage::{COUNTS, newest_first},
    error::CliError,
    output::{Column, column, table},
    settings::value::whole_number,
};

#[derive(Debug, clap::Args)]
pub(crate) struct OverviewSettings {
    /// How many minutes, the one that runs included
    #[arg(long, default_value_t = 60, value_parser = whole_number(1..=1_440_i32), value_name = "N")]
    minutes: i32,

    #[command(flatten)]
    settings: AdminSettings,
}

const REFUSALS: &[Column] =
    &[column("REFUSED BY", "cause"), column("CODE", "code"), column("REQUESTS", "requests")];
const ACCOUNTS: &[Column] = &[column("ACCOUNT", "account"), column("429", "requests")];

pub(crate) fn run(overview: &OverviewSettings) -> Result<(), CliError> {
    let request = json!({ "minutes": overview.minutes });
    overview.settings.run("GetOverview", &request, |answer| {
        let mut minutes = newest_first(&answer["minutes"]);
        minutes.retain(|minute| minute["counts"].as_object().is_some_and(|it| it.values().any(|n| *n != 0)));
        [
            table(&[&[column("MINUTE", "startTime")], COUNTS].concat(), &Value::Array(minutes)),
            table(REFUSALS, &answer["refusals"]),
            table(ACCOUNTS, &answer["refusedAccounts"]),
        ]
        .join("\n")
    })
}
