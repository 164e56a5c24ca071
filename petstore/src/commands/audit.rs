//! `petstore audit`: what operators have changed, newest first.

use std::time::Duration;

use petstore_clock::Clock;
use petstore_core::domain::AccountName;
use petstore_proto::admin::v1::{AuditEvent, ListAuditEventsRequest};
use serde_json::{Value, json};

use crate::{
    admin::{AdminSettings, PAGE_SIZE, timestamp, written},
    commands::key::key_id,
    error::CliError,
    output::columns,
    settings::{account_name, duration, value::whole_number},
};

#[derive(Debug, clap::Args)]
pub(crate) struct AuditSettings {
    /// Only what this operator did
    #[arg(long, value_name = "NAME")]
    operator: Option<String>,

    /// Only what was done to this account and its keys
    #[arg(long, value_parser = account_name, value_name = "NAME")]
    account: Option<AccountName>,

    /// Only what was done to this key
    #[arg(long, value_name = "ID")]
    key: Option<String>,

    /// Only what was done in this time before now, as in 7d
    #[arg(long, value_parser = duration::parse, value_name = "TIME")]
    last: Option<Duration>,

    /// How many events at most
    #[arg(long, default_value_t = 100, value_parser = whole_number(1..=10_000_usize), value_name = "N")]
    limit: usize,

    #[command(flatten)]
    settings: AdminSettings,
}

pub(crate) fn run(audit: AuditSettings) -> Result<(), CliError> {
    let AuditSettings { operator, account, key, last, limit, settings } = audit;
    let mut request = ListAuditEventsRequest {
        page_size: PAGE_SIZE.min(i32::try_from(limit).unwrap_or(PAGE_SIZE)),
        operator: operator.unwrap_or_default(),
        account: account.as_ref().map(ToString::to_string).unwrap_or_default(),
        key_id: key.as_deref().map(key_id).transpose()?.map(|id| id.to_string()).unwrap_or_default(),
        start_time: last.map(|last| timestamp(Clock::system().now().minus(last))),
        ..ListAuditEventsRequest::default()
    };
    let events = settings.call(async |mut client| {
        let mut events = Vec::new();
        loop {
            let page = client.list_audit_events(request.clone()).await?.into_inner();
            events.extend(page.events);
            request.page_token = page.next_page_token;
            if request.page_token.is_empty() || events.len() >= limit {
                events.truncate(limit);
                return Ok(events);
            }
        }
    })?;
    settings.print(|| table(&events), || events.iter().map(json).collect())
}

fn table(events: &[AuditEvent]) -> String {
    let rows: Vec<_> = events
        .iter()
        .map(|event| {
            let what = [&event.account, &event.key_id, &event.target_operator];
            let what = what.into_iter().filter(|name| !name.is_empty());
            vec![
                written(event.create_time.as_ref(), ""),
                event.operator.clone(),
                event.client_address.clone(),
                event.action.clone(),
                what.map(String::as_str).collect::<Vec<_>>().join(" "),
            ]
        })
        .collect();
    columns(&["TIME", "OPERATOR", "FROM", "ACTION", "ACCOUNT, KEY OR OPERATOR"], &rows)
}

fn json(event: &AuditEvent) -> Value {
    let named = |name: &String| (!name.is_empty()).then(|| name.clone());
    // The core writes both as JSON; an empty one means that the thing did not exist.
    let object = |text: &str| serde_json::from_str(text).unwrap_or(Value::Null);
    json!({
        "id": event.id,
        "time": written(event.create_time.as_ref(), ""),
        "operator": event.operator,
        "clientAddress": named(&event.client_address),
        "action": event.action,
        "account": named(&event.account),
        "key": named(&event.key_id),
        "targetOperator": named(&event.target_operator),
        "before": object(&event.before_json),
        "after": object(&event.after_json),
    })
}
