//! `petstore ban`: keys that are refused for a while. Their bans are in Redis where gateways count there, else in the
//! store.

use std::time::Duration;

use clap::Subcommand;
use petstore_clock::{Clock, UnixMillis};
use petstore_core::{
    accounts::{self, AccountName, BanRecord, KeyId, bans, keys},
    store::Store,
};
use petstore_gateway::limit::Ban as RedisBan;
use serde_json::{Value, json};

use crate::{
    administration::AdministrationSettings, duration, error::Failure, key::key_id, output::columns,
    redis_counters::RedisCounters, settings::RedisSettings,
};

/// The longest ban: what is to last longer is revoked.
const LONGEST: Duration = Duration::from_hours(24 * 366);

#[derive(Debug, Subcommand)]
pub(crate) enum Ban {
    /// List the bans in force, the next to end first
    List {
        #[command(flatten)]
        redis: RedisSettings,
        #[command(flatten)]
        settings: AdministrationSettings,
    },
    /// Lift a key's ban, and forget it; running gateways follow within 5 seconds
    Lift {
        /// The identifier that `petstore key list` shows
        id: String,
        #[command(flatten)]
        redis: RedisSettings,
        #[command(flatten)]
        settings: AdministrationSettings,
    },
    /// Ban a key from now on; running gateways follow within 5 seconds
    Add {
        /// The identifier that `petstore key list` shows
        id: String,
        /// How long, as in 1h. The key's next ban is twice as long, up to a day
        #[arg(long = "for", env = "PETSTORE_FOR", value_parser = ban_length, value_name = "TIME")]
        length: Duration,
        #[command(flatten)]
        redis: RedisSettings,
        #[command(flatten)]
        settings: AdministrationSettings,
    },
}

/// A ban in force, wherever it is kept.
#[derive(Debug)]
struct Row {
    key_id: KeyId,
    account: AccountName,
    from: UnixMillis,
    until: UnixMillis,
}

pub(crate) fn run(verb: Ban) -> Result<(), Failure> {
    let clock = Clock::system();
    match verb {
        Ban::List { redis, settings } => {
            let rows = settings.on_store(async |store| match RedisCounters::connect(&redis).await? {
                Some(counters) => list_in_redis(store, &counters).await,
                None => Ok(bans::list(store, &clock).await?.into_iter().map(Row::from).collect()),
            })?;
            settings.print(|| table(&rows), || rows.iter().map(Row::json).collect())
        }
        Ban::Lift { id, redis, settings } => {
            let id = key_id(&id)?;
            settings.on_store(async |store| match RedisCounters::connect(&redis).await? {
                Some(counters) => counters.set_ban(&keys::owner(store, id).await?, id, None).await,
                None => Ok(bans::lift(store, &clock, id).await?),
            })?;
            settings.print(|| format!("key {id} is not banned\n"), || json!({ "key": id.to_string() }))
        }
        Ban::Add { id, length, redis, settings } => {
            let id = key_id(&id)?;
            let row = settings.on_store(async |store| {
                let account = keys::owner(store, id).await?;
                let (from, until) = if let Some(counters) = RedisCounters::connect(&redis).await? {
                    let from = counters.standing(&account, Some(id)).await?.decision.now;
                    let until = from.plus(length);
                    counters.set_ban(&account, id, Some(RedisBan { from, until })).await?;
                    (from, until)
                } else {
                    let ban = bans::add(store, &clock, id, length).await?;
                    (ban.from, ban.until)
                };
                Ok(Row { key_id: id, account: account.name, from, until })
            })?;
            settings.print(|| format!("key {id} is banned until {}\n", row.until), || row.json())
        }
    }
}

/// How long a ban is to last.
fn ban_length(written: &str) -> Result<Duration, String> {
    match duration::parse(written) {
        Ok(length) if length > LONGEST => Err("must be at most 366d".to_owned()),
        Ok(length) => Ok(length),
        Err(invalid) => Err(invalid.to_string()),
    }
}

/// Asks Redis about every key of the store: nothing there lists the bans.
async fn list_in_redis(store: &Store, counters: &RedisCounters) -> Result<Vec<Row>, Failure> {
    let accounts = accounts::list(store).await?;
    let mut rows = Vec::new();
    for record in keys::list(store, None).await? {
        let account = accounts.iter().find(|account| account.name == record.account);
        let Some(account) = account.filter(|_| record.revoked_at.is_none()) else { continue };
        if let Some(ban) = counters.standing(account, Some(record.id)).await?.ban() {
            let account = account.name.clone();
            rows.push(Row { key_id: record.id, account, from: ban.from, until: ban.until });
        }
    }
    rows.sort_by_key(|row| row.until);
    Ok(rows)
}

fn table(rows: &[Row]) -> String {
    let rows: Vec<_> = rows
        .iter()
        .map(|Row { key_id, account, from, until }| {
            [key_id.to_string(), account.to_string(), from.to_string(), until.to_string()]
        })
        .collect();
    columns(["KEY", "ACCOUNT", "FROM", "UNTIL"], &rows)
}

impl Row {
    fn json(&self) -> Value {
        json!({
            "key": self.key_id.to_string(),
            "account": self.account.as_str(),
            "from": self.from.to_string(),
            "until": self.until.to_string(),
        })
    }
}

impl From<BanRecord> for Row {
    fn from(BanRecord { key_id, account, ban }: BanRecord) -> Self {
        Self { key_id, account, from: ban.from, until: ban.until }
    }
}
