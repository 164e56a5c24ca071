//! `petstore usage`: the requests of an account, and how much of its limits it and its keys have used.

use petstore_clock::Clock;
use petstore_core::domain::{Account, ApiKeyRecord, BanRecord, KeyId, KeyState, Tally, UsageDay};
use petstore_gateway::{BanBody, LimitStatusBody, WindowBody};
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    commands::{key::AccountSetting, store_command::StoreCommandSettings},
    error::CliError,
    output::{self, columns},
    process::{AdminClient, AdminUrl},
};

/// How many days are shown, including today.
const DAYS: u16 = 30;

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct UsageSettings {
    #[command(flatten)]
    account: AccountSetting,

    /// The admin port of a gateway, which knows the limits in use
    #[arg(long, env = "PETSTORE_ADMIN_URL", default_value = "http://127.0.0.1:9090", value_name = "URL")]
    admin_url: AdminUrl,

    #[command(flatten)]
    settings: StoreCommandSettings,
}

/// The usage of an account.
#[derive(Debug)]
struct Report {
    account: Account,
    /// `None` if no gateway answers.
    limits: Option<Limits>,
    days: Vec<UsageDay>,
}

/// How much of their limits the account and each of its keys have used.
#[derive(Debug)]
struct Limits {
    account: LimitStatusBody,
    keys: Vec<(KeyId, LimitStatusBody)>,
}

pub(crate) fn run(usage: &UsageSettings) -> Result<(), CliError> {
    let clock = Clock::system();
    let report = usage.settings.on_store(async |store| {
        let account = store.accounts().find(usage.account.name()).await?;
        let days = store.usage().last_days(account.id, DAYS, clock.now()).await?;
        let mut keys = store.keys().list(Some(&account.name)).await?;
        keys.retain(|key| key.state(clock.now()) == KeyState::Active);
        let limits = limits(usage, &account, keys, &store.bans().list(clock.now()).await?).await?;
        Ok(Report { account, limits, days })
    })?;
    if report.limits.is_none() {
        output::note(&format!("nothing answers at {}: limits in use are not known", usage.admin_url));
    }
    usage.settings.print(|| report.text(), || report.json())
}

async fn limits(
    usage: &UsageSettings,
    account: &Account,
    keys: Vec<ApiKeyRecord>,
    bans: &[BanRecord],
) -> Result<Option<Limits>, CliError> {
    let client = AdminClient::new(&usage.admin_url);
    let Some(of_account) = client.limit_status(account, None).await? else { return Ok(None) };
    let mut of_keys = Vec::with_capacity(keys.len());
    for ApiKeyRecord { id, .. } in keys {
        let Some(mut status) = client.limit_status(account, Some(id)).await? else { return Ok(None) };
        // A gateway learns of a ban when the key is used.
        if let Some(BanRecord { ban, .. }) = bans.iter().find(|record| record.key_id == id) {
            status.ban = Some(BanBody { from: ban.from.to_string(), until: ban.until.to_string() });
        }
        of_keys.push((id, status));
    }
    Ok(Some(Limits { account: of_account, keys: of_keys }))
}

impl Report {
    fn total(&self, of: impl Fn(&Tally) -> i64) -> i64 {
        self.days.iter().map(|day| of(&day.tally)).sum()
    }

    fn json(&self) -> Value {
        let limits = self.limits.as_ref();
        json!({
            "account": self.account.name.as_str(),
            "plan": self.account.plan.name(),
            "minute": limits.map(|limits| &limits.account.minute),
            "day": limits.map(|limits| &limits.account.day),
            "keys": limits.map_or(json!([]), |limits| limits.keys.iter().map(key_json).collect()),
            "getPet": self.total(|tally| tally.get_pet),
            "days": self.days.iter().map(day_json).collect::<Value>(),
        })
    }

    fn text(&self) -> String {
        let mut text = format!("account {} on plan {}\n", self.account.name, self.account.plan);
        if let Some(Limits { account, keys }) = &self.limits {
            let rows = [("minute", &account.minute), ("day", &account.day)].map(|(name, window)| {
                let WindowBody { limit, used, remaining, resets_at } = window;
                let [limit, used, remaining] = [limit, used, remaining].map(u64::to_string);
                [name.to_owned(), limit, used, remaining, resets_at.clone()]
            });
            text += "\n";
            text += &columns(["WINDOW", "LIMIT", "USED", "LEFT", "RESETS"], &rows);
            let rows: Vec<_> = keys
                .iter()
                .map(|(key, status)| {
                    let ban = status.ban.as_ref().map_or("no", |ban| &ban.until);
                    [key.to_string(), status.strikes.to_string(), ban.to_owned()]
                })
                .collect();
            text += "\n";
            text += &columns(["KEY", "STRIKES", "BANNED UNTIL"], &rows);
        }
        let rows: Vec<_> = self
            .days
            .iter()
            .rev()
            .map(|UsageDay { day, tally }| {
                let Tally { succeeded, client_errors, refused, server_errors, get_pet } = *tally;
                let sum = succeeded + client_errors + refused + server_errors;
                let [sum, succeeded, client_errors, refused, server_errors, get_pet] =
                    [sum, succeeded, client_errors, refused, server_errors, get_pet]
                        .map(|count| count.to_string());
                [day.to_string(), sum, succeeded, client_errors, refused, server_errors, get_pet]
            })
            .collect();
        let head = ["DATE", "REQUESTS", "2XX", "4XX", "429", "5XX", "GETPET"];
        text += "\n";
        text + &columns(head, &rows)
    }
}

fn key_json((key, status): &(KeyId, LimitStatusBody)) -> Value {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct KeyLimits<'a> {
        key: String,
        strikes: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        strikes_reset_at: &'a Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        refused_until: &'a Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        ban: &'a Option<BanBody>,
    }
    let LimitStatusBody { strikes, strikes_reset_at, refused_until, ban, .. } = status;
    json!(KeyLimits { key: key.to_string(), strikes: *strikes, strikes_reset_at, refused_until, ban })
}

fn day_json(UsageDay { day, tally }: &UsageDay) -> Value {
    let Tally { succeeded, client_errors, refused, server_errors, get_pet } = tally;
    json!({
        "date": day.to_string(),
        "requests": succeeded + client_errors + refused + server_errors,
        "byStatus": { "2xx": succeeded, "4xx": client_errors, "429": refused, "5xx": server_errors },
        "getPet": get_pet,
    })
}
