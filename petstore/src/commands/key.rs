//! `petstore key`: API keys. A key is shown once, when it is created, and never again.

use std::time::Duration;

use clap::Subcommand;
use petstore_api_key::Environment;
use petstore_core::domain::{AccountName, KeyId};
use petstore_proto::admin::v1 as admin_v1;
use petstore_proto::admin::v1::{
    CreateKeyRequest, GetKeyRequest, Key, ListKeysRequest, RevokeKeyRequest, RotateKeyRequest,
    create_key_request::Expiration, rotate_key_request::Expiration as NewExpiration,
};
use serde_json::{Map, Value};
use tonic::Status;

use crate::{
    admin::{self, AdminClient, AdminSettings, PAGE_SIZE, all_pages, value_name, written},
    error::CliError,
    output::{self, Confirmation, PrintError, columns},
    settings::{InvalidSetting, account_name, duration},
};

#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// Create a key and print it, once
    Create {
        #[command(flatten)]
        account: AccountSetting,
        /// What operators call the key, in up to 64 characters
        #[arg(long, default_value = "", hide_default_value = true, value_name = "TEXT")]
        label: String,
        /// After how long the key expires, as in 90d; by default never
        #[arg(long, value_parser = duration::parse, value_name = "TIME")]
        expires_in: Option<Duration>,
        /// production or staging: keys begin with `pet_live_` or `pet_test_`. By default that of the core, or
        /// production
        #[arg(long, env = "PETSTORE_ENVIRONMENT", value_name = "NAME")]
        environment: Option<Environment>,
        #[command(flatten)]
        settings: AdminSettings,
    },
    /// List keys, without the keys themselves
    List {
        /// Only the keys of this account
        #[arg(long, value_parser = account_name, value_name = "NAME")]
        account: Option<AccountName>,
        #[command(flatten)]
        settings: AdminSettings,
    },
    /// Show one key, without the key itself
    Show {
        /// The identifier that `petstore key list` shows
        id: String,
        #[command(flatten)]
        settings: AdminSettings,
    },
    /// Revoke a key; running gateways refuse it within 5 seconds
    Revoke {
        /// The identifier that `petstore key list` shows
        id: String,
        #[command(flatten)]
        confirmation: Confirmation,
        #[command(flatten)]
        settings: AdminSettings,
    },
    /// Create a key that replaces another one, which remains valid for a grace period
    Rotate {
        /// The identifier of the old key
        id: String,
        /// How long the old key remains valid beside the new one
        #[arg(long, default_value = "24h", value_parser = duration::parse, value_name = "TIME")]
        grace: Duration,
        /// After how long the new key expires, as in 90d, or `never`; by default after the lifetime of the old
        /// one
        #[arg(long, value_parser = new_expiration, value_name = "TIME")]
        expires_in: Option<NewExpiration>,
        /// production or staging: refuse to rotate a key of the other one. The new key belongs to the same as
        /// the old one
        #[arg(long, env = "PETSTORE_ENVIRONMENT", value_name = "NAME")]
        environment: Option<Environment>,
        #[command(flatten)]
        settings: AdminSettings,
    },
}

fn new_expiration(written: &str) -> Result<NewExpiration, String> {
    if written == "never" {
        return Ok(NewExpiration::Never(true));
    }
    let after = duration::parse(written).map_err(|error| format!("{error}, or never"))?;
    Ok(NewExpiration::Ttl(admin::duration(after)))
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

pub(crate) fn run(verb: KeyCommand) -> Result<(), CliError> {
    match verb {
        KeyCommand::Create {
            account: AccountSetting { account },
            label,
            expires_in,
            environment,
            settings,
        } => {
            let request = CreateKeyRequest {
                account: account.to_string(),
                label,
                environment: wire(environment).into(),
                expiration: expires_in.map(|after| Expiration::Ttl(admin::duration(after))),
            };
            let created =
                settings.call(async |mut client| Ok(client.create_key(request).await?.into_inner()))?;
            show_once(created.key, &created.api_key, &settings)
        }
        KeyCommand::List { account, settings } => {
            let name = account.as_ref().map(ToString::to_string).unwrap_or_default();
            let keys = settings.call(async |client| Ok(list(&client, &name).await?))?;
            settings.print(
                || table(&keys, account.is_none()),
                || keys.iter().map(|key| Value::Object(members(key))).collect(),
            )
        }
        KeyCommand::Show { id, settings } => {
            let request = GetKeyRequest { key_id: key_id(&id)?.to_string() };
            let key = present(
                settings.call(async |mut client| Ok(client.get_key(request).await?.into_inner().key))?,
            )?;
            settings.print(|| table(std::slice::from_ref(&key), true), || Value::Object(members(&key)))
        }
        KeyCommand::Revoke { id, confirmation, settings } => {
            let id = key_id(&id)?;
            confirmation.ask(&format!("revoke key {id} for good?"))?;
            let request = RevokeKeyRequest { key_id: id.to_string() };
            let key = present(
                settings.call(async |mut client| Ok(client.revoke_key(request).await?.into_inner().key))?,
            )?;
            settings.print(|| format!("key {id} is revoked\n"), || Value::Object(members(&key)))
        }
        KeyCommand::Rotate { id, grace, expires_in, environment, settings } => {
            let request = RotateKeyRequest {
                key_id: key_id(&id)?.to_string(),
                grace: Some(admin::duration(grace)),
                environment: wire(environment).into(),
                expiration: expires_in,
            };
            let rotated =
                settings.call(async |mut client| Ok(client.rotate_key(request).await?.into_inner()))?;
            show_once(rotated.key, &rotated.api_key, &settings)
        }
    }
}

/// The keys of the account, or of all accounts if the name is empty.
pub(crate) async fn list(client: &AdminClient, account: &str) -> Result<Vec<Key>, Status> {
    let page = async |page_token| {
        let request = ListKeysRequest { page_size: PAGE_SIZE, page_token, account: account.to_owned() };
        let page = client.clone().list_keys(request).await?.into_inner();
        Ok((page.keys, page.next_page_token))
    };
    all_pages(page).await
}

/// Not parsed by clap, whose errors repeat the value: it may be a key that was mistaken for its identifier.
pub(crate) fn key_id(written: &str) -> Result<KeyId, InvalidSetting> {
    written
        .parse()
        .map_err(|_| InvalidSetting::new("ID", "must be the identifier that `petstore key list` shows"))
}

fn wire(environment: Option<Environment>) -> admin_v1::Environment {
    match environment {
        None => admin_v1::Environment::Unspecified,
        Some(Environment::Production) => admin_v1::Environment::Production,
        Some(Environment::Staging) => admin_v1::Environment::Staging,
    }
}

fn present(key: Option<Key>) -> Result<Key, Status> {
    key.ok_or_else(|| Status::internal("the core's answer has no key"))
}

/// Shows a new key, alone on stdout, so that it can be piped to where it is kept.
fn show_once(key: Option<Key>, api_key: &str, settings: &AdminSettings) -> Result<(), CliError> {
    let key = present(key)?;
    let json = || {
        let mut members = members(&key);
        members.insert("key".to_owned(), api_key.into());
        Value::Object(members)
    };
    settings.print(|| format!("{api_key}\n"), json).map_err(|error| match error {
        CliError::Print(PrintError(source)) => CliError::KeyNotShown { id: key.id.clone(), source },
        other => other,
    })?;
    if settings.is_text() {
        output::note(&format!("key {} of account {}: keep it, it is not shown again", key.id, key.account));
    }
    Ok(())
}

fn table(keys: &[Key], with_account: bool) -> String {
    let with_label = keys.iter().any(|key| !key.label.is_empty());
    let rows: Vec<_> = keys
        .iter()
        .map(|key| {
            let mut row = vec![
                key.id.clone(),
                format!("{}…{}", prefix(key), key.last_four),
                key.ban.as_ref().map_or_else(
                    || state(key),
                    |ban| format!("banned until {}", written(ban.end_time.as_ref(), "")),
                ),
                written(key.create_time.as_ref(), ""),
                written(key.last_use_time.as_ref(), "never"),
                written(key.expire_time.as_ref(), "never"),
            ];
            row.extend(with_account.then(|| key.account.clone()));
            row.extend(with_label.then(|| key.label.clone()));
            row
        })
        .collect();
    let mut head = vec!["ID", "KEY", "STATE", "CREATED", "LAST USED", "EXPIRES"];
    head.extend(with_account.then_some("ACCOUNT"));
    head.extend(with_label.then_some("LABEL"));
    columns(&head, &rows)
}

fn members(key: &Key) -> Map<String, Value> {
    let moment =
        |moment: &Option<prost_types::Timestamp>| moment.as_ref().map(|moment| written(Some(moment), ""));
    let mut members: Map<String, Value> = [
        ("id", Value::from(key.id.as_str())),
        ("account", key.account.as_str().into()),
        ("prefix", prefix(key).into()),
        ("lastFour", key.last_four.as_str().into()),
        ("state", state(key).into()),
        ("createdAt", moment(&key.create_time).into()),
        ("lastUsedAt", moment(&key.last_use_time).into()),
        ("expiresAt", moment(&key.expire_time).into()),
        ("revokedAt", moment(&key.revoke_time).into()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into_iter()
    .collect();
    if !key.label.is_empty() {
        members.insert("label".to_owned(), key.label.as_str().into());
    }
    if let Some(ban) = &key.ban {
        members.insert("bannedUntil".to_owned(), moment(&ban.end_time).into());
    }
    members
}

fn prefix(key: &Key) -> &'static str {
    let environment = match key.environment() {
        admin_v1::Environment::Staging => Environment::Staging,
        admin_v1::Environment::Unspecified | admin_v1::Environment::Production => Environment::Production,
    };
    environment.key_prefix()
}

fn state(key: &Key) -> String {
    value_name(key.state().as_str_name(), "KEY_STATE_")
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
