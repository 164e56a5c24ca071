//! `petstore usage`: what an account has used, and how its keys stand.

use petstore_clock::Clock;
use petstore_core::domain::{Account, ApiKeyRecord, BanRecord, KeyState, Tally, UsageDay};
use serde_json::{Map, Value, json};

use crate::{
    commands::{key::AccountSetting, store_command::StoreCommandSettings},
    error::CliError,
    output::{self, columns},
    process::{AdminClient, AdminUrl},
};

/// How many days are shown, today included.
const DAYS: u16 = 30;

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct UsageSettings {
    #[command(flatten)]
    account: AccountSetting,

    /// The admin port of a gateway, which has the windows and strikes, or knows those in Redis
    #[arg(long, env = "PETSTORE_ADMIN_URL", default_value = "http://127.0.0.1:9090", value_name = "URL")]
    admin_url: AdminUrl,

    #[command(flatten)]
    settings: StoreCommandSettings,
}

/// All that is known of an account's usage.
#[derive(Debug)]
struct Report {
    account: Account,
    /// As `/v1/usage` tells it, of the account and of each key; `None` if nobody has it.
    standings: Option<(Value, Vec<(ApiKeyRecord, Value)>)>,
    days: Vec<UsageDay>,
}

pub(crate) fn run(usage: &UsageSettings) -> Result<(), CliError> {
    let clock = Clock::system();
    let report = usage.settings.on_store(async |store| {
        let account = store.accounts().find(usage.account.name()).await?;
        let days = store.usage().last_days(account.id, DAYS, clock.now()).await?;
        let mut keys = store.keys().list(Some(&account.name)).await?;
        keys.retain(|key| key.state(clock.now()) == KeyState::Active);
        let standings = standings(usage, &account, keys, &store.bans().list(clock.now()).await?).await?;
        Ok(Report { account, standings, days })
    })?;
    if report.standings.is_none() {
        output::note(&format!("nothing answers at {}: windows and strikes are not known", usage.admin_url));
    }
    usage.settings.print(|| report.text(), || report.json())
}

async fn standings(
    usage: &UsageSettings,
    account: &Account,
    keys: Vec<ApiKeyRecord>,
    bans: &[BanRecord],
) -> Result<Option<(Value, Vec<(ApiKeyRecord, Value)>)>, CliError> {
    let service = AdminClient::new(&usage.admin_url);
    let Some(of_account) = service.standing(account, None).await? else { return Ok(None) };
    let mut of_keys = Vec::with_capacity(keys.len());
    for key in keys {
        let Some(mut of_key) = service.standing(account, Some(key.id)).await? else { return Ok(None) };
        // A gateway may not have heard of a ban: it does when the key is used.
        if let Some(BanRecord { ban, .. }) = bans.iter().find(|record| record.key_id == key.id) {
            of_key["ban"] = json!({ "from": ban.from.to_string(), "until": ban.until.to_string() });
        }
        of_keys.push((key, of_key));
    }
    Ok(Some((of_account, of_keys)))
}

impl Report {
    fn total(&self, of: impl Fn(&Tally) -> i64) -> i64 {
        self.days.iter().map(|day| of(&day.tally)).sum()
    }

    fn json(&self) -> Value {
        let mut report = json!({
            "account": self.account.name.as_str(),
            "plan": self.account.plan.name(),
            "minute": Value::Null,
            "day": Value::Null,
            "keys": [],
            "getPet": self.total(|tally| tally.get_pet),
            "days": self.days.iter().map(day_json).collect::<Value>(),
        });
        if let Some((account, keys)) = &self.standings {
            report["minute"] = account["minute"].clone();
            report["day"] = account["day"].clone();
            report["keys"] = keys.iter().map(|(key, standing)| key_json(key, standing)).collect();
        }
        report
    }

    fn text(&self) -> String {
        let mut text = format!("account {} on plan {}\n", self.account.name, self.account.plan);
        if let Some((account, keys)) = &self.standings {
            let window = |name: &str| {
                let of = &account[name];
                ["limit", "used", "remaining"]
                    .map(|member| of[member].to_string())
                    .into_iter()
                    .chain([word(&of["resetsAt"])])
            };
            let rows: Vec<[String; 5]> = ["minute", "day"]
                .into_iter()
                .filter_map(|name| {
                    let cells: Vec<String> = [name.to_owned()].into_iter().chain(window(name)).collect();
                    cells.try_into().ok()
                })
                .collect();
            text += "\n";
            text += &columns(["WINDOW", "LIMIT", "USED", "LEFT", "RESETS"], &rows);
            let rows: Vec<_> = keys
                .iter()
                .map(|(key, standing)| {
                    let ban = standing.get("ban").map_or_else(|| "no".to_owned(), |ban| word(&ban["until"]));
                    [key.id.to_string(), standing["strikes"].to_string(), ban]
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

/// A text of a JSON document, without quotes.
fn word(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn key_json(key: &ApiKeyRecord, standing: &Value) -> Value {
    let mut members = Map::from_iter([("key".to_owned(), key.id.to_string().into())]);
    for name in ["strikes", "strikesResetAt", "refusedUntil", "ban"] {
        if let Some(value) = standing.get(name) {
            members.insert(name.to_owned(), value.clone());
        }
    }
    members.into()
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
