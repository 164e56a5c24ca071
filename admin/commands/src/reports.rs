//! Reports for operators: `petstore usage`, `overview`, `audit` and `explain`.

use std::{cmp::Reverse, time::Duration};

use clap::builder::{NonEmptyStringValueParser, PossibleValuesParser};
use petstore_admin_web::{USAGE_CSV_HEAD, usage_csv};
use petstore_clock::Clock;
use petstore_command_line::output::{self, Column, column, sentence, table};
use petstore_settings::value::{duration, whole_number};
use serde_json::{Map, Value, json};
use tonic::Status;

use crate::{client::AdminSettings, error::CommandError};

/// Accounts whose usage is shown.
#[derive(Clone, Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct Whose {
    /// Name of the account
    #[arg(long, value_parser = NonEmptyStringValueParser::new(), value_name = "NAME")]
    account: Option<String>,

    /// Show all accounts, each day or month of each in a row
    #[arg(long)]
    all: bool,

    /// Show the accounts that have used at least 80 % of their limit of the current UTC day
    #[arg(long, conflicts_with_all = ["by", "last"])]
    near_limit: bool,

    /// Show the accounts that have used more than that limit, as in an outage of Redis
    #[arg(long, conflicts_with_all = ["by", "last"])]
    over_limit: bool,
}

/// Requests of an account by day or by minute, or of all accounts by day or by month.
#[derive(Clone, Debug, clap::Args)]
pub struct UsageSettings {
    #[command(flatten)]
    whose: Whose,

    /// Length of the periods: with `--account`, day or minute (kept for 24 hours); with `--all`, day or
    /// month. Days are UTC
    #[arg(long, default_value = "day", value_parser = PossibleValuesParser::new(["day", "minute", "month"]))]
    #[arg(value_name = "PERIOD")]
    by: String,

    /// Time before now that is shown, as in 2h; by default 30 days, with `--by minute` 60 minutes, with
    /// `--by month` the whole months of the last 89 days and the current one
    #[arg(long, value_parser = duration, value_name = "TIME")]
    last: Option<Duration>,

    /// Key whose requests are shown; requires `--by minute`
    #[arg(long, value_parser = NonEmptyStringValueParser::new(), value_name = "ID")]
    #[arg(conflicts_with_all = ["all", "near_limit", "over_limit"])]
    key: Option<String>,

    /// Show each key in separate rows; requires `--by minute`
    #[arg(long, conflicts_with_all = ["all", "near_limit", "over_limit"])]
    by_key: bool,

    /// Print CSV, whatever `--output` says, page by page, so for any number of accounts; requires `--all`
    #[arg(long, conflicts_with_all = ["account", "near_limit", "over_limit"])]
    csv: bool,

    #[command(flatten)]
    settings: AdminSettings,
}

/// Load of the service, and reasons of refusals.
#[derive(Debug, clap::Args)]
pub struct OverviewSettings {
    /// Number of minutes that are shown, with the current one
    #[arg(long, default_value_t = 60, value_parser = whole_number(1..=1_440_i32), value_name = "N")]
    minutes: i32,

    #[command(flatten)]
    settings: AdminSettings,
}

/// Calls of the deprecated getPet, and the other requests of its callers, to its replacement among them.
#[derive(Debug, clap::Args)]
pub struct DeprecationSettings {
    /// Account whose requests are shown, even if it no longer calls getPet
    #[arg(long, value_parser = NonEmptyStringValueParser::new(), value_name = "NAME")]
    account: Option<String>,

    /// Rows: accounts, UTC days of all callers together, or the keys of --account in the last 24 hours
    #[arg(long, value_parser = PossibleValuesParser::new(["account", "day", "key"]), value_name = "ROW")]
    #[arg(default_value = "account")]
    by: String,

    /// Number of UTC days, with today; 30 by default
    #[arg(long, value_parser = whole_number(1..=90_i32), value_name = "N")]
    days: Option<i32>,

    /// Print CSV (RFC 4180), whatever `--output` says
    #[arg(long)]
    csv: bool,

    #[command(flatten)]
    settings: AdminSettings,
}

/// Changes by operators, newest first.
#[derive(Debug, clap::Args)]
pub struct AuditSettings {
    /// Operator whose changes are shown
    #[arg(long, value_parser = NonEmptyStringValueParser::new(), value_name = "NAME")]
    operator: Option<String>,

    /// Account whose changes, and those of its keys, are shown
    #[arg(long, value_parser = NonEmptyStringValueParser::new(), value_name = "NAME")]
    account: Option<String>,

    /// Key whose changes are shown
    #[arg(long, value_parser = NonEmptyStringValueParser::new(), value_name = "ID")]
    key: Option<String>,

    /// Time before now that is shown, as in 7d
    #[arg(long, value_parser = duration, value_name = "TIME")]
    last: Option<Duration>,

    /// Maximum number of events
    #[arg(long, default_value_t = 100, value_parser = whole_number(1..=10_000_usize), value_name = "N")]
    limit: usize,

    #[command(flatten)]
    settings: AdminSettings,
}

/// Refusals of the last 24 hours, and their reasons.
#[derive(Debug, clap::Args)]
#[group(id = "subject", required = true, multiple = true, args = ["request_id", "account", "key"])]
pub struct ExplainSettings {
    /// X-Request-Id of a refused request
    #[arg(value_parser = NonEmptyStringValueParser::new(), value_name = "REQUEST_ID")]
    request_id: Option<String>,

    /// Account whose refused requests are explained; with `REQUEST_ID`, the account of that request
    #[arg(long, value_parser = NonEmptyStringValueParser::new(), value_name = "NAME")]
    account: Option<String>,

    /// Key whose refused requests are explained
    #[arg(long, value_parser = NonEmptyStringValueParser::new(), value_name = "ID")]
    #[arg(conflicts_with_all = ["request_id", "account"])]
    key: Option<String>,

    #[command(flatten)]
    settings: AdminSettings,
}

/// Columns of the counts of a period. The calls of `getPet` are among the others.
const COUNTS: &[Column] = &[
    column("REQUESTS", "counts.succeeded counts.clientErrors counts.refused counts.serverErrors"),
    column("2XX", "counts.succeeded"),
    column("4XX", "counts.clientErrors"),
    column("429", "counts.refused"),
    column("5XX", "counts.serverErrors"),
    column("GETPET", "counts.getPet"),
];
const DEPRECATED: &[Column] = &[
    column("DATE", "date").if_any(),
    column("ACCOUNT", "account").if_any(),
    column("KEY", "keyId").if_any(),
    column("GETPET", "calls"),
    column("LAST 7 DAYS", "recentCalls").if_any(),
    column("OTHER REQUESTS", "otherRequests").if_any(),
    column("LAST GETPET", "lastDate").or("none"),
];
/// Facts about refusals, with the word before each.
const FACTS: &[(&str, &str)] = &[
    ("reason", "reason"),
    ("since", "startTime"),
    ("until", "endTime"),
    ("lifted", "liftTime"),
    ("refused requests", "refusedRequests"),
    ("first", "firstRefusalTime"),
    ("last", "lastRefusalTime"),
    ("request", "lastRequestId"),
];
/// Columns of the accounts near their limits.
const NEAR_LIMIT: &[Column] = &[
    column("ACCOUNT", "account"),
    column("PLAN", "plan"),
    column("USED", "counts.succeeded counts.clientErrors counts.serverErrors"),
    column("PER DAY", "dayLimit"),
    column("PERCENT", "percent"),
];
const EVENTS: &[Column] = &[
    column("TIME", "createTime"),
    column("OPERATOR", "operator"),
    column("FROM", "clientAddress clientCertificate"),
    column("ACTION", "action"),
    column("ACCOUNT, KEY OR OPERATOR", "account keyId targetOperator"),
    column("CHANGE", "change"),
];

/// Prints the report.
///
/// # Errors
///
/// If a core of 1.0.0 answers, which lists all accounts, and something else was asked for.
pub(crate) fn deprecation(report: &DeprecationSettings) -> Result<(), CommandError> {
    let DeprecationSettings { account, by, days, csv, settings } = report;
    let request = json!({ "account": account, "by": by, "days": days });
    let answer = settings.call("ListDeprecatedUse", &request)?;
    let is_of_all_accounts = account.is_none() && by == "account";
    let mut rows = answer["uses"].clone();
    for row in rows.as_array_mut().into_iter().flatten() {
        if row["otherRequests"].is_null() && !is_of_all_accounts {
            let older = "this core is older than 1.1.0: leave out --account and --by";
            return Err(Status::failed_precondition(older).into());
        }
        set_date(row, "date", "startTime");
        set_date(row, "lastDate", "lastDay");
    }
    if answer["hasMore"] == true {
        output::note("there are more rows, with fewer calls");
    }
    if *csv {
        return Ok(output::print(&comma_separated(&rows))?);
    }
    settings.print(&answer, |_| table(DEPRECATED, &rows))
}

/// Returns the rows of the report as comma-separated values. None needs quotes: names, identifiers, dates and
/// numbers have no commas.
fn comma_separated(uses: &Value) -> String {
    const COLUMNS: [&str; 7] =
        ["date", "account", "keyId", "calls", "recentCalls", "otherRequests", "lastDate"];
    let cell = |row: &Value, column: &str| Some(&row[column]).filter(|it| !it.is_null()).map(text);
    let line = |row: &Value| COLUMNS.map(|column| cell(row, column).unwrap_or_default()).join(",");
    let lines = uses.as_array().into_iter().flatten().map(line);
    [COLUMNS.join(",")].into_iter().chain(lines).map(|line| line + "\r\n").collect()
}

pub(crate) fn usage(usage: &UsageSettings) -> Result<(), CommandError> {
    let UsageSettings { whose, by, last, key, by_key, settings, .. } = usage;
    let Some(account) = &whose.account else { return all_usage(usage) };
    let request = json!({
        "account": account,
        "interval": by,
        "startTime": start_time(*last),
        "keyId": key,
        "byKey": by_key,
    });
    let answer = settings.call("GetUsage", &request)?;
    settings.print(&answer, |answer| {
        let periods = newest_first(&answer["periods"]);
        if by == "minute" {
            let head = [column("MINUTE", "startTime"), column("KEY", "keyId").if_any()];
            return table(&[&head, COUNTS].concat(), &Value::Array(periods));
        }
        output::note(&format!(
            "for the current limits, ask a gateway: GET /admin/v1/accounts/{account}/limits on its admin port"
        ));
        dated_table(&[], periods)
    })
}

/// Returns the table of these columns and the counts of each period, which begins with its date.
fn dated_table(columns: &[Column], mut periods: Vec<Value>) -> String {
    for period in &mut periods {
        set_date(period, "date", "startTime");
    }
    table(&[&[column("DATE", "date")], columns, COUNTS].concat(), &Value::Array(periods))
}

/// Prints the usage of all accounts, or of those near their limits.
fn all_usage(usage: &UsageSettings) -> Result<(), CommandError> {
    const METHOD: &str = "ListAccountUsage";
    let UsageSettings { whose, by, last, csv, settings, .. } = usage;
    if whose.near_limit || whose.over_limit {
        let request = json!({ "nearLimit": whose.near_limit, "overLimit": whose.over_limit });
        let answer = settings.pages(METHOD, &request, usize::MAX)?;
        return settings.print(&answer, |answer| {
            let mut rows = answer["usage"].as_array().cloned().unwrap_or_default();
            rows.iter_mut().for_each(set_percent);
            rows.sort_by_key(|row| Reverse(row["percent"].as_i64()));
            table(NEAR_LIMIT, &Value::Array(rows))
        });
    }
    let request = json!({ "interval": by, "startTime": start_time(*last) });
    if *csv {
        output::print(USAGE_CSV_HEAD)?;
        let print = |page: Value| Ok(output::print(&usage_csv(&page))?);
        return settings.each_page(METHOD, &request, usize::MAX, print);
    }
    let answer = settings.pages(METHOD, &request, usize::MAX)?;
    settings.print(&answer, |answer| {
        let rows = answer["usage"].as_array().cloned().unwrap_or_default();
        dated_table(&[column("ACCOUNT", "account"), column("PLAN", "plan")], rows)
    })
}

pub(crate) fn overview(overview: &OverviewSettings) -> Result<(), CommandError> {
    let answer = overview.settings.call("GetOverview", &json!({ "minutes": overview.minutes }))?;
    overview.settings.print(&answer, |answer| {
        let mut minutes = newest_first(&answer["minutes"]);
        minutes.retain(|minute| minute["counts"].as_object().is_some_and(|it| it.values().any(|n| *n != 0)));
        let refusals =
            [column("REFUSED BY", "cause"), column("CODE", "code"), column("REQUESTS", "requests")];
        let accounts = [column("ACCOUNT", "account"), column("429", "requests")];
        [
            table(&[&[column("MINUTE", "startTime")], COUNTS].concat(), &Value::Array(minutes)),
            table(&refusals, &answer["refusals"]),
            table(&accounts, &answer["refusedAccounts"]),
        ]
        .join("\n")
    })
}

pub(crate) fn audit(audit: &AuditSettings) -> Result<(), CommandError> {
    let AuditSettings { operator, account, key, last, limit, settings } = audit;
    let start_time = start_time(*last);
    let request = json!({ "operator": operator, "account": account, "keyId": key, "startTime": start_time });
    let page = settings.pages("ListAuditEvents", &request, *limit)?;
    settings.print(&page, |page| {
        let events: Value = page["events"].as_array().into_iter().flatten().map(with_change).collect();
        table(EVENTS, &events)
    })
}

/// Prints the explanations.
///
/// # Errors
///
/// [`CommandError::NotFound`] if no refusal is kept, after the state of the account and the note were
/// printed.
pub(crate) fn explain(explain: &ExplainSettings) -> Result<(), CommandError> {
    let ExplainSettings { request_id, account, key, settings } = explain;
    let request = json!({ "requestId": request_id, "account": account, "keyId": key });
    let answer = settings.call("ExplainRefusal", &request)?;
    settings.print(&answer, |answer| {
        let explanations = answer["explanations"].as_array().into_iter().flatten();
        let explanations = explanations.map(|it| {
            let is_known = |value: &Value| !value.is_null() && *value != "" && *value != 0;
            let known = FACTS.iter().filter(|(_, member)| is_known(&it[*member]));
            let state = if it["inForce"] == true { "in force" } else { "not in force" }.to_owned();
            let facts = known.map(|(word, member)| format!("{word} {{{member}}}"));
            let facts: Vec<_> = [state].into_iter().chain(facts).collect();
            sentence(&format!("{{sentence}}\n  {}\n  {{remedy}}", facts.join(", ")), it)
        });
        let note = Some(sentence("{note}", answer)).filter(|_| answer["note"] != "");
        explanations.chain(note).collect::<Vec<_>>().join("\n")
    })?;
    let not_found = || Err(CommandError::NotFound("no record of such a refusal".to_owned()));
    if answer["note"] == "" { Ok(()) } else { not_found() }
}

/// Returns the time at which a report over the last time begins.
fn start_time(last: Option<Duration>) -> Option<String> {
    last.map(|last| Clock::system().now().minus(last).to_string())
}

/// Sets the UTC date of a moment; the empty text if the row has none.
fn set_date(row: &mut Value, date: &str, moment: &str) {
    let day = row[moment].as_str().and_then(|moment| moment.split('T').next());
    row[date] = day.unwrap_or_default().into();
}

/// Sets the used part of the account's limit per day. Responses with 429 do not count against it.
fn set_percent(row: &mut Value) {
    let counted = ["succeeded", "clientErrors", "serverErrors"];
    let used: i64 = counted.iter().filter_map(|count| row["counts"][count].as_i64()).sum();
    let percent = row["dayLimit"].as_i64().and_then(|limit| used.saturating_mul(100).checked_div(limit));
    row["percent"] = percent.into(); // `null` without a limit
}

/// Returns the periods of an answer, which are ascending, newest first.
fn newest_first(periods: &Value) -> Vec<Value> {
    periods.as_array().into_iter().flatten().rev().cloned().collect()
}

/// Returns the event with a member that describes the change in words.
fn with_change(event: &Value) -> Value {
    let [before, mut after] = ["beforeJson", "afterJson"].map(|member| {
        let object = event[member].as_str().unwrap_or_default();
        serde_json::from_str::<Map<String, Value>>(object).unwrap_or_default() // the core writes objects
    });
    // A rotation tells of two keys: the old one, which it changes, and the new one.
    let new_key = after.remove("new").map(|new| format!("replaced by key {}", text(&new["id"])));
    if let Some(Value::Object(old)) = after.remove("old") {
        after = old;
    }
    let names = before.keys().chain(after.keys().filter(|name| !before.contains_key(*name)));
    let change = |name: &String| match (before.get(name), after.get(name)) {
        (before, after) if before == after => None,
        (Some(before), Some(after)) => Some(format!("{name}: {} -> {}", text(before), text(after))),
        (Some(before), None) => Some(format!("{name}: {} -> none", text(before))),
        (None, after) => Some(format!("{name}: none -> {}", after.map(text).unwrap_or_default())),
    };
    let mut event = event.clone();
    event["change"] = names.filter_map(change).chain(new_key).collect::<Vec<_>>().join(", ").into();
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
        let rotated = change(
            r#"{"id":"a","environment":"production"}"#,
            r#"{"new":{"id":"b"},
                "old":{"id":"a","environment":"production","expireTime":"2027-01-15T08:00:00Z"}}"#,
        );
        assert_eq!(rotated, "expireTime: none -> 2027-01-15T08:00:00Z, replaced by key b");
    }
}
