//! `petstore usage`: the requests of an account by day, and how much of its limits it and its keys have used;
//! or its requests by minute.

mod minutes;

use std::time::Duration;

use petstore_clock::Clock;
use petstore_core::domain::Day;
use petstore_gateway::{BanBody, LimitStatusBody, WindowBody};
use petstore_proto::admin::v1::{
    Account, GetAccountRequest, GetUsageRequest, Key, KeyState, UsageCounts, UsageInterval, UsagePeriod,
};
use serde::Serialize;
use serde_json::{Value, json};
use tonic::Status;

use crate::{
    admin::{AdminSettings, moment, timestamp, written},
    commands::{
        account::{limits, plan_name},
        key::{self, AccountSetting, key_id},
    },
    error::CliError,
    output::{self, columns},
    process::{AdminPortClient, AdminUrlSettings},
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
    admin_port: AdminUrlSettings,

    #[command(flatten)]
    settings: AdminSettings,
}

/// The length of the periods that usage is told by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Period {
    /// UTC days, and the limits in use
    Day,
    /// Minutes
    Minute,
}

/// The usage of an account.
#[derive(Debug)]
struct Report {
    account: Account,
    /// `None` if no gateway answers.
    limits: Option<LimitsInUse>,
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

/// How much of their limits the account and each of its keys have used.
#[derive(Debug)]
struct LimitsInUse {
    account: LimitStatusBody,
    keys: Vec<(String, LimitStatusBody)>,
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
        let mut keys = key::list(&client, &name).await?;
        keys.retain(|key| key.state() == KeyState::Active);
        let limits = limits_in_use(usage, &account, keys).await?;
        Ok(Report { account, limits, days })
    })?;
    if report.limits.is_none() {
        let url = &usage.admin_port.admin_url;
        output::note(&format!("nothing answers at {url}: limits in use are not known"));
    }
    usage.settings.print(|| report.text(), || report.json())
}

async fn limits_in_use(
    usage: &UsageSettings,
    account: &Account,
    keys: Vec<Key>,
) -> Result<Option<LimitsInUse>, CliError> {
    let client = AdminPortClient::new(&usage.admin_port.admin_url);
    let limits = limits(account);
    let Some(of_account) = client.limit_status(account.id, limits, None).await? else { return Ok(None) };
    let mut of_keys = Vec::with_capacity(keys.len());
    for Key { id, ban, .. } in keys {
        let Some(mut status) = client.limit_status(account.id, limits, Some(&id)).await? else {
            return Ok(None);
        };
        // A gateway learns of a ban when the key is used.
        if let Some(ban) = ban {
            let (from, until) = (written(ban.create_time.as_ref(), ""), written(ban.end_time.as_ref(), ""));
            status.ban = Some(BanBody { from, until });
        }
        of_keys.push((id, status));
    }
    Ok(Some(LimitsInUse { account: of_account, keys: of_keys }))
}

impl Report {
    fn get_pet_calls(&self) -> i64 {
        self.days.iter().map(|day| counts(day).get_pet).sum()
    }

    fn json(&self) -> Value {
        let limits = self.limits.as_ref();
        json!({
            "account": self.account.name,
            "plan": plan_name(&self.account),
            "minute": limits.map(|limits| &limits.account.minute),
            "day": limits.map(|limits| &limits.account.day),
            "keys": limits.map_or(json!([]), |limits| limits.keys.iter().map(key_json).collect()),
            "getPet": self.get_pet_calls(),
            "days": self.days.iter().map(day_json).collect::<Value>(),
        })
    }

    fn text(&self) -> String {
        let mut text = format!("account {} on plan {}\n", self.account.name, plan_name(&self.account));
        if let Some(LimitsInUse { account, keys }) = &self.limits {
            let rows = [("minute", &account.minute), ("day", &account.day)].map(|(name, window)| {
                let WindowBody { limit, used, remaining, resets_at } = window;
                let [limit, used, remaining] = [limit, used, remaining].map(u64::to_string);
                vec![name.to_owned(), limit, used, remaining, resets_at.clone()]
            });
            text += "\n";
            text += &columns(&["WINDOW", "LIMIT", "USED", "LEFT", "RESETS"], &rows);
            let rows: Vec<_> = keys
                .iter()
                .map(|(key, status)| {
                    let ban = status.ban.as_ref().map_or("no", |ban| &ban.until);
                    vec![key.clone(), status.strikes.to_string(), ban.to_owned()]
                })
                .collect();
            text += "\n";
            text += &columns(&["KEY", "STRIKES", "BANNED UNTIL"], &rows);
        }
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

fn key_json((key, status): &(String, LimitStatusBody)) -> Value {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct KeyLimits<'a> {
        key: &'a str,
        strikes: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        strikes_reset_at: &'a Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        refused_until: &'a Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        ban: &'a Option<BanBody>,
    }
    let LimitStatusBody { strikes, strikes_reset_at, refused_until, ban, .. } = status;
    json!(KeyLimits { key, strikes: *strikes, strikes_reset_at, refused_until, ban })
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
