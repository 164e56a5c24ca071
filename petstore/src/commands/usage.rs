//! `petstore usage`: the requests of an account by day or by minute.

mod minutes;

use std::time::Duration;

use petstore_clock::Clock;
use petstore_core::domain::Day;
use petstore_proto::admin::v1::{
    Account, GetAccountRequest, GetUsageRequest, UsageCounts, UsageInterval, UsagePeriod,
};
use serde_json::{Value, json};
use tonic::Status;

use crate::{
    admin::{AdminSettings, moment, timestamp},
    commands::{
        account::plan_name,
        key::{AccountSetting, key_id},
    },
    error::CliError,
    output::{self, columns},
    settings::duration,
};

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct UsageSettings {
    #[command(flatten)]
    account: AccountSetting,

    /// How long the periods are that requests are counted in. Minutes are kept for 24 hours
    #[arg(long, default_value = "day", value_enum, value_name = "PERIOD")]
    by: Period,

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

/// The length of the periods that usage is told by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Period {
    /// UTC days
    Day,
    /// Minutes
    Minute,
}

/// The usage of an account.
#[derive(Debug)]
struct Report {
    account: Account,
    /// Ascending.
    days: Vec<UsagePeriod>,
}

impl From<Period> for UsageInterval {
    fn from(period: Period) -> Self {
        match period {
            Period::Day => Self::Day,
            Period::Minute => Self::Minute,
        }
    }
}

pub(crate) fn run(usage: &UsageSettings) -> Result<(), CliError> {
    let name = usage.account.name().to_string();
    let request = GetUsageRequest {
        account: name.clone(),
        key_id: usage.key.as_deref().map(key_id).transpose()?.map(|id| id.to_string()).unwrap_or_default(),
        interval: UsageInterval::from(usage.by).into(),
        start_time: usage.last.map(|last| timestamp(Clock::system().now().minus(last))),
        by_key: usage.by_key,
    };
    if usage.by == Period::Minute {
        return minutes::run(usage, request);
    }
    let report = usage.settings.call(async |mut client| {
        let this = GetAccountRequest { account: name.clone(), account_id: 0 };
        let account = client.get_account(this).await?.into_inner().account;
        let account = account.ok_or_else(|| Status::internal("the core's answer has no account"))?;
        let days = client.get_usage(request).await?.into_inner().periods;
        Ok(Report { account, days })
    })?;
    usage.settings.print(|| report.text(), || report.json())?;
    if usage.settings.is_text() {
        let path = format!("/admin/v1/accounts/{}/limits", report.account.name);
        output::note(&format!(
            "limits in use are not shown: gateways count them, see {path} on an admin port"
        ));
    }
    Ok(())
}

impl Report {
    fn get_pet_calls(&self) -> i64 {
        self.days.iter().map(|day| counts(day).get_pet).sum()
    }

    fn json(&self) -> Value {
        json!({
            "account": self.account.name,
            "plan": plan_name(&self.account),
            "getPet": self.get_pet_calls(),
            "days": self.days.iter().map(day_json).collect::<Value>(),
        })
    }

    fn text(&self) -> String {
        let mut text = format!("account {} on plan {}\n", self.account.name, plan_name(&self.account));
        let rows: Vec<Vec<_>> = self
            .days
            .iter()
            .rev()
            .map(|period| std::iter::once(date(period)).chain(count_cells(period)).collect())
            .collect();
        text += "\n";
        text + &columns(&[&["DATE"][..], &COUNTS].concat(), &rows)
    }
}

fn day_json(period: &UsagePeriod) -> Value {
    let mut json = counts_json(period);
    json["date"] = date(period).into();
    json
}

/// What a period counts, for programs.
pub(super) fn counts_json(period: &UsagePeriod) -> Value {
    let counts = counts(period);
    let UsageCounts { succeeded, client_errors, refused, server_errors, get_pet } = counts;
    json!({
        "requests": total(&counts),
        "byStatus": { "2xx": succeeded, "4xx": client_errors, "429": refused, "5xx": server_errors },
        "getPet": get_pet,
    })
}

/// The heads of the columns of counts.
pub(super) const COUNTS: [&str; 6] = ["REQUESTS", "2XX", "4XX", "429", "5XX", "GETPET"];

/// What a period counts, for these columns.
pub(super) fn count_cells(period: &UsagePeriod) -> [String; 6] {
    let counts = counts(period);
    let UsageCounts { succeeded, client_errors, refused, server_errors, get_pet } = counts;
    [total(&counts), succeeded, client_errors, refused, server_errors, get_pet].map(|count| count.to_string())
}

fn counts(period: &UsagePeriod) -> UsageCounts {
    period.counts.unwrap_or_default()
}

/// All requests: the calls of `getPet` are among the others.
fn total(counts: &UsageCounts) -> i64 {
    counts.succeeded + counts.client_errors + counts.refused + counts.server_errors
}

/// The UTC day of a period.
fn date(period: &UsagePeriod) -> String {
    Day::containing(moment(period.start_time.as_ref()).unwrap_or_default()).to_string()
}
