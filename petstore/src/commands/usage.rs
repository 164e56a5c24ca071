//! `petstore usage`: the requests of an account by day or by minute.

use std::time::Duration;

use clap::builder::PossibleValuesParser;
use petstore_clock::Clock;
use serde_json::{Value, json};

use crate::{
    admin::AdminSettings,
    error::CliError,
    output::{self, Column, column, table},
    settings::duration,
};

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct UsageSettings {
    /// The account's name
    #[arg(long, value_name = "NAME")]
    account: String,

    /// How long the periods are that requests are counted in: UTC days, or minutes, which are kept for 24
    /// hours
    #[arg(long, default_value = "day", value_parser = PossibleValuesParser::new(["day", "minute"]))]
    #[arg(value_name = "PERIOD")]
    by: String,

    /// Only this time before now, as in 2h; by default 30 days, or 60 minutes
    #[arg(long, value_parser = duration::parse, value_name = "TIME")]
    last: Option<Duration>,

    /// Only requests with this key; needs `--by minute`
    #[arg(long, value_name = "ID")]
    key: Option<String>,

    /// Each key by itself; needs `--by minute`
    #[arg(long)]
    by_key: bool,

    #[command(flatten)]
    settings: AdminSettings,
}

/// Columns of the counts of a period. The calls of `getPet` are among the others.
pub(super) const COUNTS: &[Column] = &[
    column("REQUESTS", "counts.succeeded counts.clientErrors counts.refused counts.serverErrors"),
    column("2XX", "counts.succeeded"),
    column("4XX", "counts.clientErrors"),
    column("429", "counts.refused"),
    column("5XX", "counts.serverErrors"),
    column("GETPET", "counts.getPet"),
];

pub(crate) fn run(usage: &UsageSettings) -> Result<(), CliError> {
    let UsageSettings { account, by, last, key, by_key, settings } = usage;
    let request = json!({
        "account": account,
        "interval": by,
        "startTime": last.map(|last| Clock::system().now().minus(last).to_string()),
        "keyId": key,
        "byKey": by_key,
    });
    let is_by_day = by == "day";
    settings.run("GetUsage", &request, |answer| {
        let mut periods = newest_first(&answer["periods"]);
        if !is_by_day {
            let head = [column("MINUTE", "startTime"), column("KEY", "keyId").if_any()];
            return table(&[&head, COUNTS].concat(), &Value::Array(periods));
        }
        for period in &mut periods {
            let date = period["startTime"].as_str().and_then(|start| start.split('T').next());
            period["date"] = date.unwrap_or_default().into();
        }
        output::note(&format!(
            "limits in use are not shown: gateways count them, see /admin/v1/accounts/{account}/limits on \
             an admin port"
        ));
        table(&[&[column("DATE", "date")], COUNTS].concat(), &Value::Array(periods))
    })
}

/// Returns the periods of an answer, which are ascending, newest first.
pub(super) fn newest_first(periods: &Value) -> Vec<Value> {
    periods.as_array().into_iter().flatten().rev().cloned().collect()
}
