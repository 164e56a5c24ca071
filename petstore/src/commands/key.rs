//! `petstore key`: API keys. A key is shown once, when it is created, and never again.

use std::time::Duration;

use clap::Subcommand;
use petstore_api_key::Environment;
use serde_json::json;

use crate::{
    admin::{self, AdminSettings},
    error::CliError,
    output::{Column, Confirmation, column, sentence, table},
    settings::{InvalidSetting, duration},
};

#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// Create a key and print it, once
    Create {
        /// The account's name
        #[arg(long, value_name = "NAME")]
        account: String,
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
        #[arg(long, value_name = "NAME")]
        account: Option<String>,
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
        /// After how long the new key expires, as in 90d, or `never`; by default after the lifetime of the
        /// old one
        #[arg(long, value_parser = new_lifetime, value_name = "TIME")]
        expires_in: Option<Lifetime>,
        /// production or staging: refuse to rotate a key of the other one. The new key belongs to the same as
        /// the old one
        #[arg(long, env = "PETSTORE_ENVIRONMENT", value_name = "NAME")]
        environment: Option<Environment>,
        #[command(flatten)]
        settings: AdminSettings,
    },
}

/// Time for which a new key may be used: `None` for ever.
type Lifetime = Option<Duration>;

fn new_lifetime(written: &str) -> Result<Lifetime, String> {
    if written == "never" {
        return Ok(None);
    }
    duration::parse(written).map(Some).map_err(|error| format!("{error}, or never"))
}

const COLUMNS: &[Column] = &[
    column("ID", "id"),
    column("ENDS IN", "lastFour"),
    column("ENVIRONMENT", "environment"),
    column("STATE", "state"),
    column("BANNED UNTIL", "ban.endTime").if_any(),
    column("CREATED", "createTime"),
    column("LAST USED", "lastUseTime").or("never"),
    column("EXPIRES", "expireTime").or("never"),
    column("ACCOUNT", "account"),
    column("LABEL", "label").if_any(),
];

const NOTE: &str = "key {key.id} of account {key.account}: keep it, it is not shown again";
const REMEDY: &str = "revoke it with `petstore key revoke {key.id}`, and create another";

pub(crate) fn run(verb: KeyCommand) -> Result<(), CliError> {
    match verb {
        KeyCommand::Create { account, label, expires_in, environment, settings } => {
            let request = json!({
                "account": account,
                "label": label,
                "ttl": expires_in.map(admin::seconds),
                "environment": environment.map(Environment::name),
            });
            settings.run_once("CreateKey", &request, "apiKey", NOTE, REMEDY)
        }
        KeyCommand::List { account, settings } => {
            let request = json!({ "account": account });
            settings.list("ListKeys", &request, usize::MAX, |page| table(COLUMNS, &page["keys"]))
        }
        KeyCommand::Show { id, settings } => {
            settings.run("GetKey", &json!({ "keyId": id }), |key| table(COLUMNS, key))
        }
        KeyCommand::Revoke { id, confirmation, settings } => {
            confirmation.ask(&format!("revoke key {} for good?", shown(&id)?))?;
            settings.run("RevokeKey", &json!({ "keyId": id }), |key| sentence("key {id} is revoked", key))
        }
        KeyCommand::Rotate { id, grace, expires_in, environment, settings } => {
            let request = json!({
                "keyId": id,
                "grace": admin::seconds(grace),
                "ttl": expires_in.flatten().map(admin::seconds),
                "never": (expires_in == Some(None)).then_some(true),
                "environment": environment.map(Environment::name),
            });
            settings.run_once("RotateKey", &request, "apiKey", NOTE, REMEDY)
        }
    }
}

/// Returns an identifier that can be shown. Any other text may be a key that was mistaken for its identifier.
fn shown(id: &str) -> Result<&str, InvalidSetting> {
    let is_id = id.parse::<uuid::Uuid>().is_ok();
    is_id
        .then_some(id)
        .ok_or_else(|| InvalidSetting::new("ID", "must be the identifier that `petstore key list` shows"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_is_mistaken_for_an_identifier_is_not_repeated() {
        let refusal = shown("pet_live_0000000000000000000000000000001PRvVh").unwrap_err().to_string();
        assert_eq!(refusal, "ID: must be the identifier that `petstore key list` shows");
    }
}
