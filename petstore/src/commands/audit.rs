//! `petstore audit`: changes by operators, newest first.

use std::time::Duration;

use petstore_clock::Clock;
use serde_json::{Map, Value, json};

use crate::{
    admin::AdminSettings,
    error::CliError,
    output::{Column, column, table},
    settings::{duration, value::whole_number},
};

#[derive(Debug, clap::Args)]
pub(crate) struct AuditSettings {
    /// Only what this operator did
    #[arg(long, value_name = "NAME")]
    operator: Option<String>,

    /// Only what was done to this account and its keys
    #[arg(long, value_name = "NAME")]
    account: Option<String>,

    /// Only what was done to this key
    #[arg(long, value_name = "ID")]
    key: Option<String>,

    /// Only what was done in this time before now, as in 7d
    #[arg(long, value_parser = duration::parse, value_name = "TIME")]
    last: Option<Duration>,

    /// How many events at most
    #[arg(long, default_value_t = 100, value_parser = whole_number(1..=10_000_usize), value_name = "N")]
    limit: usize,

    #[command(flatten)]
    settings: AdminSettings,
}

const COLUMNS: &[Column] = &[
    column("TIME", "createTime"),
    column("OPERATOR", "operator"),
    column("FROM", "clientAddress"),
    column("ACTION", "action"),
    column("ACCOUNT, KEY OR OPERATOR", "account keyId targetOperator"),
    column("CHANGE", "change"),
];

pub(crate) fn run(audit: &AuditSettings) -> Result<(), CliError> {
    let AuditSettings { operator, account, key, last, limit, settings } = audit;
    let start_time = last.map(|last| Clock::system().now().minus(last).to_string());
    let request = json!({ "operator": operator, "account": account, "keyId": key, "startTime": start_time });
    settings.list("ListAuditEvents", &request, *limit, |page| {
        let events: Value = page["events"].as_array().into_iter().flatten().map(with_change).collect();
        table(COLUMNS, &events)
    })
}

/// Returns the event with a member that describes the change in words.
fn with_change(event: &Value) -> Value {
    let [before, after] = ["beforeJson", "afterJson"].map(|member| {
        let object = event[member].as_str().unwrap_or_default();
        serde_json::from_str::<Map<String, Value>>(object).unwrap_or_default() // the core writes objects
    });
    let names = before.keys().chain(after.keys().filter(|name| !before.contains_key(*name)));
    let change = |name: &String| match (before.get(name), after.get(name)) {
        (before, after) if before == after => None,
        (Some(before), Some(after)) => Some(format!("{name}: {} -> {}", text(before), text(after))),
        (Some(before), None) => Some(format!("{name}: {} -> none", text(before))),
        (None, after) => Some(format!("{name}: none -> {}", after.map(text).unwrap_or_default())),
    };
    let mut event = event.clone();
    event["change"] = names.filter_map(change).collect::<Vec<_>>().join(", ").into();
    event
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(before: &str, after: &str) -> Value {
        with_change(&json!({ "beforeJson": before, "afterJson": after }))["change"].clone()
    }

    #[test]
    fn a_change_shows_the_values_before_and_after() {
        assert_eq!(
            change(r#"{"id":1,"plan":"pro","perDay":2}"#, r#"{"id":1,"plan":"free","perDay":1}"#),
            "plan: pro -> free, perDay: 2 -> 1"
        );
        assert_eq!(change("", r#"{"name":"shop"}"#), "name: none -> shop");
        assert_eq!(change(r#"{"reason":"late"}"#, "{}"), "reason: late -> none");
        assert_eq!(change("", ""), "");
    }
}
