//! `petstore overview`: how busy the service is, and what refuses requests.

use petstore_proto::admin::v1::{GetOverviewRequest, GetOverviewResponse, RefusalCount};
use serde_json::{Value, json};

use crate::{
    admin::{AdminSettings, value_name, written},
    commands::usage::{COUNTS, count_cells, counts_json},
    error::CliError,
    output::columns,
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

pub(crate) fn run(overview: &OverviewSettings) -> Result<(), CliError> {
    let request = GetOverviewRequest { minutes: overview.minutes };
    let told =
        overview.settings.call(async |mut client| Ok(client.get_overview(request).await?.into_inner()))?;
    overview.settings.print(|| text(&told), || json(&told))
}

/// The minutes with requests, newest first, and what refused requests in all of them.
fn text(told: &GetOverviewResponse) -> String {
    let minutes: Vec<Vec<_>> = told
        .minutes
        .iter()
        .rev()
        .map(|minute| (written(minute.start_time.as_ref(), ""), count_cells(minute)))
        .filter(|(_, counts)| counts[0] != "0")
        .map(|(start, counts)| std::iter::once(start).chain(counts).collect())
        .collect();
    let refusals: Vec<_> = told
        .refusals
        .iter()
        .map(|refusal| vec![cause(refusal), refusal.code.clone(), refusal.requests.to_string()])
        .collect();
    let accounts: Vec<_> = told
        .refused_accounts
        .iter()
        .map(|refused| vec![refused.account.clone(), refused.requests.to_string()])
        .collect();
    [
        columns(&[&["MINUTE"][..], &COUNTS].concat(), &minutes),
        columns(&["REFUSED BY", "CODE", "REQUESTS"], &refusals),
        columns(&["ACCOUNT", "429"], &accounts),
    ]
    .join("\n")
}

fn cause(refusal: &RefusalCount) -> String {
    value_name(refusal.cause().as_str_name(), "REFUSAL_CAUSE_")
}

fn json(told: &GetOverviewResponse) -> Value {
    let minutes = told.minutes.iter().map(|minute| {
        let mut json = counts_json(minute);
        json["minute"] = written(minute.start_time.as_ref(), "").into();
        json
    });
    let refusals = told.refusals.iter().map(
        |refusal| json!({ "cause": cause(refusal), "code": refusal.code, "requests": refusal.requests }),
    );
    let accounts = told
        .refused_accounts
        .iter()
        .map(|refused| json!({ "account": refused.account, "requests": refused.requests }));
    json!({
        "minutes": minutes.collect::<Value>(),
        "refusals": refusals.collect::<Value>(),
        "refusedAccounts": accounts.collect::<Value>(),
    })
}
