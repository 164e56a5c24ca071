//! `petstore explain`: why requests were refused within the last 24 hours.

use petstore_core::domain::AccountName;
use petstore_proto::admin::v1::{ExplainRefusalRequest, ExplainRefusalResponse, RefusalExplanation};
use serde_json::{Value, json};

use crate::{
    admin::{AdminSettings, value_name, written},
    commands::key::key_id,
    error::CliError,
    settings::account_name,
};

#[derive(Debug, clap::Args)]
#[group(id = "subject", required = true, multiple = true, args = ["request_id", "account", "key"])]
pub(crate) struct ExplainSettings {
    /// The X-Request-Id of a refused request
    #[arg(value_name = "REQUEST_ID")]
    request_id: Option<String>,

    /// Requests of this account; with `REQUEST_ID`, that request of this account
    #[arg(long, value_parser = account_name, value_name = "NAME")]
    account: Option<AccountName>,

    /// Requests of this key
    #[arg(long, value_name = "ID", conflicts_with_all = ["request_id", "account"])]
    key: Option<String>,

    #[command(flatten)]
    settings: AdminSettings,
}

/// Prints the explanations.
///
/// # Errors
///
/// [`CliError::NotFound`] if no refusal is kept, after the state of the account and the note were printed.
pub(crate) fn run(explain: ExplainSettings) -> Result<(), CliError> {
    let ExplainSettings { request_id, account, key, settings } = explain;
    let request = ExplainRefusalRequest {
        account: account.map(|name| name.to_string()).unwrap_or_default(),
        key_id: key.map(|key| key_id(&key)).transpose()?.map(|id| id.to_string()).unwrap_or_default(),
        request_id: request_id.unwrap_or_default(),
    };
    let answer = settings.call(async |mut client| Ok(client.explain_refusal(request).await?.into_inner()))?;
    settings.print(|| text(&answer), || answer.explanations.iter().map(json).collect())?;
    if answer.note.is_empty() { Ok(()) } else { Err(CliError::NotFound) }
}

fn text(ExplainRefusalResponse { explanations, note }: &ExplainRefusalResponse) -> String {
    let explanations = explanations.iter().map(|it| format!("{}\n  {}\n", it.sentence, it.remedy));
    let note = Some(format!("{note}\n")).filter(|_| !note.is_empty());
    explanations.chain(note).collect::<Vec<_>>().join("\n")
}

fn json(explanation: &RefusalExplanation) -> Value {
    let moment =
        |moment: &Option<prost_types::Timestamp>| moment.as_ref().map(|moment| written(Some(moment), ""));
    json!({
        "cause": value_name(explanation.cause().as_str_name(), "REFUSAL_CAUSE_"),
        "code": explanation.code,
        "account": explanation.account,
        "key": explanation.key_id,
        "limit": (explanation.limit > 0).then_some(explanation.limit),
        "since": moment(&explanation.start_time),
        "until": moment(&explanation.end_time),
        "inForce": explanation.in_force,
        "refusedRequests": explanation.refused_requests,
        "lastRequestId": explanation.last_request_id,
        "lastRefusedAt": moment(&explanation.last_refusal_time),
        "explanation": explanation.sentence,
        "remedy": explanation.remedy,
    })
}
