//! `petstore key`: API keys. A key is shown once, when it is made, and never again.

use std::time::Duration;

use clap::Subcommand;
use petstore_api_key::Environment;
use petstore_clock::{Clock, UnixMillis};
use petstore_core::domain::{AccountName, ApiKeyRecord, IssuedKey, KeyId};
use serde_json::{Map, Value};

use crate::{
    commands::store_command::StoreCommandSettings,
    error::CliError,
    output::{self, PrintError, columns},
    settings::{EnvironmentSettings, InvalidSetting, account_name, duration},
};

#[derive(Debug, Subcommand)]
pub(crate) enum Key {
    /// Create a key and print it, once
    Create {
        #[command(flatten)]
        account: AccountSetting,
        /// After how long the key expires, as in 90d; by default never
        #[arg(long, value_parser = duration::parse, value_name = "TIME")]
        expires_in: Option<Duration>,
        #[command(flatten)]
        environment: EnvironmentSettings,
        #[command(flatten)]
        settings: StoreCommandSettings,
    },
    /// List the keys of an account, without the keys themselves
    List {
        #[command(flatten)]
        account: AccountSetting,
        #[command(flatten)]
        settings: StoreCommandSettings,
    },
    /// Revoke a key; running gateways refuse it within 5 seconds
    Revoke {
        /// The identifier that `petstore key list` shows
        id: String,
        #[command(flatten)]
        settings: StoreCommandSettings,
    },
    /// Create a key that replaces another one, which remains valid for a grace period
    Rotate {
        /// The identifier of the old key
        id: String,
        /// How long the old key remains valid beside the new one
        #[arg(long, default_value = "24h", value_parser = duration::parse, value_name = "TIME")]
        grace: Duration,
        /// production or staging: refuse to rotate a key of the other one. The new key belongs to the same as
        /// the old one
        #[arg(long, env = "PETSTORE_ENVIRONMENT", value_name = "NAME")]
        environment: Option<Environment>,
        #[command(flatten)]
        settings: StoreCommandSettings,
    },
}

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct AccountSetting {
    /// The account's name
    #[arg(long, value_parser = account_name, value_name = "NAME")]
    account: AccountName,
}

impl AccountSetting {
    pub(crate) fn name(&self) -> &AccountName {
        &self.account
    }
}

pub(crate) fn run(verb: Key) -> Result<(), CliError> {
    let clock = Clock::system();
    match verb {
        Key::Create { account: AccountSetting { account }, expires_in, environment, settings } => {
            let issued = settings.on_store(async |store| {
                let now = clock.now();
                let expires_at = expires_in.map(|after| now.plus(after));
                Ok(store.keys().create(&account, environment.environment, expires_at, now).await?)
            })?;
            show(&issued, &settings)
        }
        Key::List { account: AccountSetting { account }, settings } => {
            let records = settings.on_store(async |store| Ok(store.keys().list(Some(&account)).await?))?;
            let now = clock.now();
            settings.print(
                || table(&records, now),
                || records.iter().map(|record| Value::Object(members(record, now))).collect(),
            )
        }
        Key::Revoke { id, settings } => {
            let id = key_id(&id)?;
            let record = settings.on_store(async |store| Ok(store.keys().revoke(id, clock.now()).await?))?;
            settings
                .print(|| format!("key {id} is revoked\n"), || Value::Object(members(&record, clock.now())))
        }
        Key::Rotate { id, grace, environment, settings } => {
            let id = key_id(&id)?;
            let issued = settings.on_store(async |store| {
                Ok(store.keys().rotate(id, grace, environment, clock.now()).await?.issued)
            })?;
            show(&issued, &settings)
        }
    }
}

/// Not parsed by clap, whose errors repeat the value: it may be a key that was mistaken for its identifier.
pub(crate) fn key_id(written: &str) -> Result<KeyId, InvalidSetting> {
    written
        .parse()
        .map_err(|_| InvalidSetting::new("ID", "must be the identifier that `petstore key list` shows"))
}

/// Shows a new key, alone on stdout, so that it can be piped to where it is kept.
fn show(issued: &IssuedKey, settings: &StoreCommandSettings) -> Result<(), CliError> {
    let IssuedKey { record, key } = issued;
    let json = || {
        let mut members = members(record, record.created_at);
        members.insert("key".to_owned(), key.expose().into());
        Value::Object(members)
    };
    settings.print(|| format!("{}\n", key.expose()), json).map_err(|error| match error {
        CliError::Print(PrintError(source)) => CliError::KeyNotShown { id: record.id, source },
        other => other,
    })?;
    if settings.is_text() {
        output::note(&format!(
            "key {} of account {}: keep it, it is not shown again",
            record.id, record.account
        ));
    }
    Ok(())
}

fn table(records: &[ApiKeyRecord], now: UnixMillis) -> String {
    let moment = |moment: Option<UnixMillis>, otherwise: &str| {
        moment.map_or_else(|| otherwise.to_owned(), |moment| moment.to_string())
    };
    let rows: Vec<_> = records
        .iter()
        .map(|record| {
            [
                record.id.to_string(),
                format!("{}…{}", record.environment.key_prefix(), record.last_four),
                record.state(now).to_string(),
                record.created_at.to_string(),
                moment(record.last_used_at, "never"),
                moment(record.expires_at, "never"),
            ]
        })
        .collect();
    columns(["ID", "KEY", "STATE", "CREATED", "LAST USED", "EXPIRES"], &rows)
}

fn members(record: &ApiKeyRecord, now: UnixMillis) -> Map<String, Value> {
    let moment = |moment: Option<UnixMillis>| moment.map_or(Value::Null, |moment| moment.to_string().into());
    [
        ("id", record.id.to_string().into()),
        ("account", record.account.as_str().into()),
        ("prefix", record.environment.key_prefix().into()),
        ("lastFour", record.last_four.as_str().into()),
        ("state", record.state(now).to_string().into()),
        ("createdAt", record.created_at.to_string().into()),
        ("lastUsedAt", moment(record.last_used_at)),
        ("expiresAt", moment(record.expires_at)),
        ("revokedAt", moment(record.revoked_at)),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into_iter()
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_is_mistaken_for_an_identifier_is_not_repeated() {
        let refusal = key_id("pet_live_0000000000000000000000000000001PRvVh").unwrap_err().to_string();
        assert_eq!(refusal, "ID: must be the identifier that `petstore key list` shows");
    }
}
