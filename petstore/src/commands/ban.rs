//! `petstore ban`: keys that are refused for a while. Bans are in the store; gateways learn of them within
//! seconds, also if they count in Redis.

use std::time::Duration;

use clap::Subcommand;
use petstore_clock::Clock;
use petstore_core::domain::{BanOrigin, BanRecord, StatedReason};
use serde_json::{Value, json};

use crate::{
    commands::{key::key_id, store_command::StoreCommandSettings},
    error::CliError,
    output::columns,
    settings::{InvalidSetting, duration},
};

/// The longest ban. A key that has to be refused for longer is revoked.
const MAX_LENGTH: Duration = Duration::from_hours(24 * 366);

#[derive(Debug, Subcommand)]
pub(crate) enum Ban {
    /// List the bans in force; the one that ends first comes first
    List {
        #[command(flatten)]
        settings: StoreCommandSettings,
    },
    /// Lift the ban of a key; running gateways follow within 5 seconds
    Lift {
        /// The identifier that `petstore key list` shows
        id: String,
        #[command(flatten)]
        settings: StoreCommandSettings,
    },
    /// Ban a key from now on; running gateways follow within 5 seconds
    Add {
        /// The identifier that `petstore key list` shows
        id: String,
        /// How long, as in 1h. The next automatic ban of the key is twice as long, up to a day
        #[arg(long = "for", value_parser = ban_length, value_name = "TIME")]
        length: Duration,
        /// Why, in up to 200 characters. The owner of the key sees it in each refusal, and `ban list` shows
        /// it
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
        #[command(flatten)]
        settings: StoreCommandSettings,
    },
}

pub(crate) fn run(verb: Ban) -> Result<(), CliError> {
    let clock = Clock::system();
    match verb {
        Ban::List { settings } => {
            let records = settings.on_store(async |store| Ok(store.bans().list(clock.now()).await?))?;
            settings.print(|| table(&records), || records.iter().map(row_json).collect())
        }
        Ban::Lift { id, settings } => {
            let id = key_id(&id)?;
            settings.on_store(async |store| Ok(store.bans().lift(id, clock.now()).await?))?;
            settings.print(|| format!("key {id} is not banned\n"), || json!({ "key": id.to_string() }))
        }
        Ban::Add { id, length, reason, settings } => {
            let id = key_id(&id)?;
            let reason = reason.as_deref().map(ban_reason).transpose()?;
            let record = settings
                .on_store(async |store| Ok(store.bans().add(id, length, reason, clock.now()).await?))?;
            let until = record.ban.until;
            settings.print(|| format!("key {id} is banned until {until}\n"), || row_json(&record))
        }
    }
}

/// The length of a ban.
fn ban_length(written: &str) -> Result<Duration, String> {
    match duration::parse(written) {
        Ok(length) if length > MAX_LENGTH => Err("must be at most 366d".to_owned()),
        Ok(length) => Ok(length),
        Err(invalid) => Err(invalid.to_string()),
    }
}

/// Not parsed by clap, whose errors repeat the value: it may contain a key.
fn ban_reason(written: &str) -> Result<StatedReason, InvalidSetting> {
    StatedReason::parse(written).map_err(|violation| InvalidSetting::new("--reason", violation.rule))
}

fn table(records: &[BanRecord]) -> String {
    let rows: Vec<_> = records
        .iter()
        .map(|BanRecord { key_id, account, ban }| {
            let (by, reason) = origin(&ban.origin);
            let reason = reason.unwrap_or_default().to_owned();
            let (key_id, account) = (key_id.to_string(), account.to_string());
            [key_id, account, ban.from.to_string(), ban.until.to_string(), by.to_owned(), reason]
        })
        .collect();
    columns(["KEY", "ACCOUNT", "FROM", "UNTIL", "BY", "REASON"], &rows)
}

fn row_json(BanRecord { key_id, account, ban }: &BanRecord) -> Value {
    let (by, reason) = origin(&ban.origin);
    json!({
        "key": key_id.to_string(),
        "account": account.as_str(),
        "from": ban.from.to_string(),
        "until": ban.until.to_string(),
        "by": by,
        "reason": reason,
    })
}

/// Who imposed a ban, and what is said about it.
fn origin(origin: &BanOrigin) -> (&'static str, Option<&str>) {
    match origin {
        BanOrigin::Limiter => ("limiter", None),
        BanOrigin::Operator(reason) => ("operator", reason.as_ref().map(StatedReason::as_str)),
    }
}
