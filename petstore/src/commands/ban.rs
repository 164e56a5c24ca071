//! `petstore ban`: keys that are refused for a while. Bans are in the store; gateways learn of them within
//! seconds, also if they count in Redis.

use std::time::Duration;

use clap::Subcommand;
use petstore_core::domain::{KeyId, StatedReason};
use petstore_proto::admin::v1::{
    Ban, BanOrigin, CreateBanRequest, LiftBanRequest, ListBansRequest, create_ban_request::End,
};
use serde_json::{Value, json};
use tonic::Status;

use crate::{
    admin::{self, AdminSettings, PAGE_SIZE, all_pages, value_name, written},
    commands::key::key_id,
    error::CliError,
    output::columns,
    settings::{InvalidSetting, duration},
};

/// The longest ban. A key that has to be refused for longer is revoked.
const MAX_LENGTH: Duration = Duration::from_hours(24 * 366);

#[derive(Debug, Subcommand)]
pub(crate) enum BanCommand {
    /// List the bans in force; the one that ends first comes first
    List {
        #[command(flatten)]
        settings: AdminSettings,
    },
    /// Lift the ban of a key; running gateways follow within 5 seconds
    Lift {
        /// The identifier that `petstore key list` shows
        id: String,
        #[command(flatten)]
        settings: AdminSettings,
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
        settings: AdminSettings,
    },
}

pub(crate) fn run(verb: BanCommand) -> Result<(), CliError> {
    match verb {
        BanCommand::List { settings } => {
            let bans = settings.call(async |client| {
                let page = async |page_token| {
                    let request =
                        ListBansRequest { page_size: PAGE_SIZE, page_token, account: String::new() };
                    let page = client.clone().list_bans(request).await?.into_inner();
                    Ok((page.bans, page.next_page_token))
                };
                Ok(all_pages(page).await?)
            })?;
            settings.print(|| table(&bans), || bans.iter().map(row_json).collect())
        }
        BanCommand::Lift { id, settings } => {
            let key_id = key_id(&id)?.to_string();
            let request = LiftBanRequest { key_id: key_id.clone() };
            settings.call(async |mut client| Ok(client.lift_ban(request).await?))?;
            settings.print(|| format!("key {key_id} is not banned\n"), || json!({ "key": key_id }))
        }
        BanCommand::Add { id, length, reason, settings } => {
            let id: KeyId = key_id(&id)?;
            let request = CreateBanRequest {
                key_id: id.to_string(),
                reason: reason.as_deref().map(ban_reason).transpose()?.unwrap_or_default(),
                end: Some(End::Duration(admin::duration(length))),
            };
            let ban =
                settings.call(async |mut client| Ok(client.create_ban(request).await?.into_inner().ban))?;
            let ban = ban.ok_or_else(|| Status::internal("the core's answer has no ban"))?;
            let until = written(ban.end_time.as_ref(), "");
            settings.print(|| format!("key {id} is banned until {until}\n"), || row_json(&ban))
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
fn ban_reason(written: &str) -> Result<String, InvalidSetting> {
    let reason = StatedReason::parse(written);
    let reason = reason.map_err(|violation| InvalidSetting::new("--reason", violation.rule))?;
    Ok(reason.as_str().to_owned())
}

fn table(bans: &[Ban]) -> String {
    let rows: Vec<_> = bans
        .iter()
        .map(|ban| {
            vec![
                ban.key_id.clone(),
                ban.account.clone(),
                written(ban.create_time.as_ref(), ""),
                written(ban.end_time.as_ref(), ""),
                origin(ban),
                ban.reason.clone(),
            ]
        })
        .collect();
    columns(&["KEY", "ACCOUNT", "FROM", "UNTIL", "BY", "REASON"], &rows)
}

fn row_json(ban: &Ban) -> Value {
    json!({
        "key": ban.key_id,
        "account": ban.account,
        "from": written(ban.create_time.as_ref(), ""),
        "until": written(ban.end_time.as_ref(), ""),
        "by": origin(ban),
        "reason": (ban.origin() == BanOrigin::Operator && !ban.reason.is_empty()).then_some(&ban.reason),
    })
}

/// Who imposed a ban: `limiter` or `operator`.
fn origin(ban: &Ban) -> String {
    value_name(ban.origin().as_str_name(), "BAN_ORIGIN_")
}
