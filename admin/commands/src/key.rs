//! `petstore key` and `petstore ban`: API keys, each shown once, when it is created, and never again; and
//! their bans, which gateways receive within seconds.

use std::{
    collections::HashSet,
    io::{self, IsTerminal, Read},
    time::Duration,
};

use clap::{Subcommand, builder::NonEmptyStringValueParser};
use petstore_admin_web::{find_requests, findings};
use petstore_caller::api_key::{ApiKey, Environment};
use petstore_clock::format_duration;
use petstore_command_line::output::{self, Column, Confirmation, column, sentence, table};
use petstore_settings::{InvalidSetting, value::duration};
use serde_json::{Value, json};

use crate::{
    client::{AdminCommand, AdminSettings},
    error::CommandError,
};

#[derive(Debug, Subcommand)]
pub enum KeyCommand {
    /// Create a key and print it, once
    Create {
        /// Name of the account
        #[arg(long, value_parser = NonEmptyStringValueParser::new(), value_name = "NAME")]
        account: String,
        /// Name of the key, which its holder sees too, in up to 64 characters
        #[arg(long, default_value = "", hide_default_value = true, value_name = "TEXT")]
        label: String,
        /// Lifetime of the key, as in 90d; unlimited by default
        #[arg(long, value_parser = duration, value_name = "TIME")]
        expires_in: Option<Duration>,
        /// Environment of the created key, production or staging: it begins with `pet_live_` or `pet_test_`.
        /// By default that of the core, or production
        #[arg(long, env = "PETSTORE_ENVIRONMENT", value_name = "NAME")]
        environment: Option<Environment>,
        /// Requests that the key may make: full or, for GET, HEAD and OPTIONS only, read
        #[arg(long, default_value = "full", value_parser = ["full", "read"], value_name = "NAME")]
        access: String,
        /// Addresses that may use the key, as in 192.0.2.7,203.0.113.0/24: at most 16; by default any
        #[arg(long, value_parser = NonEmptyStringValueParser::new())]
        #[arg(value_delimiter = ',', value_name = "CIDR,…")]
        allowed_addresses: Vec<String>,
    },
    /// List keys, without the keys themselves
    List {
        /// Account whose keys are listed; by default all accounts
        #[arg(long, value_parser = NonEmptyStringValueParser::new(), value_name = "NAME")]
        account: Option<String>,
        /// List only active keys that have not been used for this time, as in 30d
        #[arg(long, value_parser = duration, value_name = "TIME")]
        unused_for: Option<Duration>,
        /// List only active keys that expire within this time, as in 7d
        #[arg(long, value_parser = duration, value_name = "TIME")]
        expiring_within: Option<Duration>,
    },
    /// Find the owners of the keys in a text on stdin, such as a leaked file; exit code 3 if none is known
    Find,
    /// Show one key, without the key itself
    Show {
        /// Identifier of the key, from `petstore key list`
        id: String,
    },
    /// Revoke a key; running gateways refuse it within 5 seconds
    Revoke {
        /// Identifier of the key, from `petstore key list`
        id: String,
        #[command(flatten)]
        confirmation: Confirmation,
    },
    /// Show whether a rotated key may be revoked: exit code 0 if so, 4 if not yet, 3 if it was not rotated
    Handover {
        /// Identifier of the old key or of the new one, from `petstore key list`
        id: String,
    },
    /// Create a key that replaces another one, which remains valid for a grace period
    Rotate {
        /// Identifier of the old key, from `petstore key list`
        id: String,
        /// Time for which the old key remains valid beside the new one
        #[arg(long, default_value = "24h", value_parser = duration, value_name = "TIME")]
        grace: Duration,
        /// Lifetime of the new key, as in 90d, or `never`; by default that of the old key
        #[arg(long, value_parser = lifetime, value_name = "TIME")]
        expires_in: Option<Lifetime>,
        /// Environment of the rotated key, production or staging. A key of the other environment is refused;
        /// the new key has that of the old one
        #[arg(long, env = "PETSTORE_ENVIRONMENT", value_name = "NAME")]
        environment: Option<Environment>,
    },
}

/// Time for which a new key or token may be used: `None` for ever.
pub(crate) type Lifetime = Option<Duration>;

pub(crate) fn lifetime(written: &str) -> Result<Lifetime, String> {
    if written == "never" {
        return Ok(None);
    }
    duration(written).map(Some).map_err(|error| format!("{error}, or never"))
}

const COLUMNS: &[Column] = &[
    column("ID", "id"),
    column("BEGINS WITH", "prefix").if_any(), // an older core does not name it
    column("ENDS IN", "lastFour"),
    column("ENVIRONMENT", "environment"),
    column("STATE", "state"),
    column("BANNED UNTIL", "ban.endTime").if_any(),
    column("CREATED", "createTime"),
    column("LAST USED", "lastUseTime").or("never"),
    column("EXPIRES", "expireTime").or("never"),
    column("ACCOUNT", "account"),
    column("ACCESS", "access").if_any(),
    column("ALLOWED ADDRESSES", "allowedAddresses").if_any(),
    column("LABEL", "label").if_any(),
    column("REPLACES", "replaces").if_any(),
];
const FINDINGS: &[Column] = &[
    column("BEGINS WITH", "prefix"),
    column("ENDS IN", "lastFour"),
    column("FINDING", "finding"),
    column("ACCOUNT", "key.account").if_any(),
    column("ID", "key.id").if_any(),
    column("STATE", "key.state").if_any(),
    column("LAST USED", "key.lastUseTime").if_any(),
    column("TO REVOKE IT", "revokeCommand").if_any(),
];

const NOTE: &str = "key {key.id} of account {key.account} is shown only once; keep it";
const REMEDY: &str = "revoke it with `petstore key revoke {key.id}`, and create another";

pub(crate) fn run_key(
    AdminCommand { command, settings }: AdminCommand<KeyCommand>,
) -> Result<(), CommandError> {
    match command {
        KeyCommand::Create { account, label, expires_in, environment, access, allowed_addresses } => {
            let request = json!({
                "account": account,
                "label": label,
                "ttl": expires_in.map(format_duration),
                "environment": environment.map(Environment::name),
                "access": access,
                "allowedAddresses": allowed_addresses,
            });
            settings.run_once("CreateKey", &request, "apiKey", NOTE, REMEDY)
        }
        KeyCommand::List { account, unused_for, expiring_within } => {
            let request = json!({
                "account": account,
                "unusedFor": unused_for.map(format_duration),
                "expiringWithin": expiring_within.map(format_duration),
            });
            settings.list("ListKeys", &request, COLUMNS)
        }
        KeyCommand::Find => find(&settings, io::stdin().lock()),
        KeyCommand::Handover { id } => handover(&settings, &id),
        KeyCommand::Show { id } => settings.show("GetKey", &json!({ "keyId": id }), COLUMNS),
        KeyCommand::Revoke { id, confirmation } => {
            confirmation.ask(&format!("permanently revoke key {}?", shown(&id)?))?;
            settings.say("RevokeKey", &json!({ "keyId": id }), "key {id} is revoked")
        }
        KeyCommand::Rotate { id, grace, expires_in, environment } => {
            let request = json!({
                "keyId": id,
                "grace": format_duration(grace),
                "ttl": expires_in.flatten().map(format_duration),
                "never": (expires_in == Some(None)).then_some(true),
                "environment": environment.map(Environment::name),
            });
            settings.run_once("RotateKey", &request, "apiKey", NOTE, REMEDY)
        }
    }
}

/// Prints the owners of the keys in a text. The keys stay in this process: the core gets their digests.
///
/// # Errors
///
/// [`CommandError::NotFound`] if no key in the text is one of the service. The findings were printed
/// then.
fn find(settings: &AdminSettings, text: impl Read) -> Result<(), CommandError> {
    if io::stdin().is_terminal() {
        output::note("paste the text, and end it with Ctrl-D on a line of its own");
    }
    let keys = keys_in(text).map_err(|source| CommandError::Read { file: "stdin".into(), source })?;
    let answers = find_requests(&keys).into_iter().map(|request| settings.call("FindKeys", &request));
    let findings = findings(&keys, &answers.collect::<Result<Vec<_>, _>>()?);
    settings.print(&findings, |findings| table(FINDINGS, &findings["keys"]))?;
    let is_known = |finding: &Value| finding["finding"] == "known";
    let is_found = findings["keys"].as_array().is_some_and(|keys| keys.iter().any(is_known));
    is_found.then_some(()).ok_or(CommandError::NotFound("the text has no key of this service".to_owned()))
}

/// Returns every key in a text of any size, each once.
fn keys_in(mut text: impl Read) -> io::Result<Vec<ApiKey>> {
    const PIECE: u64 = 1024 * 1024;
    let (mut keys, mut seen, mut piece) = (Vec::new(), HashSet::new(), Vec::new());
    loop {
        let read = text.by_ref().take(PIECE).read_to_end(&mut piece)?;
        keys.extend(ApiKey::all_in(&piece).into_iter().filter(|key| seen.insert(key.digest())));
        if (read as u64) < PIECE {
            return Ok(keys);
        }
        piece.drain(..piece.len() - ApiKey::MAX_BYTES); // a key may begin in one piece and end in the next
    }
}

fn handover(settings: &AdminSettings, id: &str) -> Result<(), CommandError> {
    let answer = settings.call("GetKeyHandover", &json!({ "keyId": id }))?;
    settings.print(&answer, |answer| {
        let revoke = if answer["state"] == "safe" { "\npetstore key revoke {oldKey.id}" } else { "" };
        sentence(&format!("{{sentence}}{revoke}"), answer)
    })?;
    match answer["state"].as_str() {
        Some("safe" | "ended") => Ok(()),
        Some("not_rotated") => Err(CommandError::NotFound("there is no handover".to_owned())),
        _ => Err(CommandError::NotYetSafe),
    }
}

/// Returns an identifier that can be shown. Any other text may be a key that was mistaken for its identifier.
fn shown(id: &str) -> Result<&str, InvalidSetting> {
    let invalid = |_| InvalidSetting::new("ID", "must be an identifier from `petstore key list`");
    id.parse::<uuid::Uuid>().map(|_| id).map_err(invalid)
}

#[derive(Debug, Subcommand)]
pub enum BanCommand {
    /// List the bans in force, the newest first
    List,
    /// Lift the ban of a key; running gateways follow within 5 seconds
    Lift {
        /// Identifier of the key, from `petstore key list`
        id: String,
    },
    /// Ban a key from now on; running gateways follow within 5 seconds
    Add {
        /// Identifier of the key, from `petstore key list`
        id: String,
        /// Length of the ban, as in 1h, at most 366d. The next automatic ban of the key is twice as long, but
        /// at least five minutes and at most a day
        #[arg(long = "for", value_parser = duration, value_name = "TIME")]
        length: Duration,
        /// Reason, in up to 200 characters, which every refusal of the key and `ban list` show
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
}

const BANS: &[Column] = &[
    column("KEY", "keyId"),
    column("ACCOUNT", "account"),
    column("FROM", "createTime"),
    column("UNTIL", "endTime"),
    column("BY", "origin"),
    column("REASON", "reason"),
];

pub(crate) fn run_ban(
    AdminCommand { command, settings }: AdminCommand<BanCommand>,
) -> Result<(), CommandError> {
    match command {
        BanCommand::List => settings.list("ListBans", &json!({}), BANS),
        BanCommand::Lift { id } => {
            settings.say("LiftBan", &json!({ "keyId": id }), "key {keyId} is not banned")
        }
        BanCommand::Add { id, length, reason } => {
            let request = json!({ "keyId": id, "duration": format_duration(length), "reason": reason });
            settings.say("CreateBan", &request, "key {keyId} is banned until {endTime}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_is_mistaken_for_an_identifier_is_not_repeated() {
        let refusal = shown("pet_live_0000000000000000000000000000001PRvVh").unwrap_err().to_string();
        assert_eq!(refusal, "ID: must be an identifier from `petstore key list`");
    }
}
