//! `petstore explain`: why requests were refused, from what is known of the last 24 hours.

use petstore_core::domain::AccountName;
use petstore_proto::admin::v1::{
    ExplainRefusalRequest, RefusalExplanation, explain_refusal_request::Subject,
};
use serde_json::{Value, json};

use crate::{
    admin::{AdminSettings, value_name, written},
    commands::key::key_id,
    error::CliError,
    settings::account_name,
};

#[derive(Debug, clap::Args)]
#[group(id = "subject", required = true, multiple = false, args = ["request_id", "account", "key"])]
pub(crate) struct ExplainSettings {
    /// The X-Request-Id of a refused request
    #[arg(value_name = "REQUEST_ID")]
    request_id: Option<String>,

    /// Why requests of this account were refused
    #[arg(long, value_parser = account_name, value_name = "NAME")]
    account: Option<AccountName>,

    /// Why requests of this key were refused
    #[arg(long, value_name = "ID")]
    key: Option<String>,

    #[command(flatten)]
    settings: AdminSettings,
}

pub(crate) fn run(explain: ExplainSettings) -> Result<(), CliError> {
    let ExplainSettings { request_id, account, key, settings } = explain;
    let subject = match (account, key) {
        (Some(account), _) => Subject::Account(account.to_string()),
        (None, Some(key)) => Subject::KeyId(key_id(&key)?.to_string()),
        (None, None) => Subject::RequestId(request_id.unwrap_or_default()),
    };
    let request = ExplainRefusalRequest { subject: Some(subject) };
    let explanations = settings
        .call(async |mut client| Ok(client.explain_refusal(request).await?.into_inner().explanations))?;
    settings.print(|| text(&explanations), || explanations.iter().map(json).collect())
}

fn text(explanations: &[RefusalExplanation]) -> String {
    if explanations.is_empty() {
        return "nothing is known to refuse, or to have refused, these requests\n".to_owned();
    }
    let paragraphs: Vec<_> = explanations
        .iter()
        .map(|RefusalExplanation { sentence, remedy, .. }| format!("{sentence}\n  {remedy}\n"))
        .collect();
    paragraphs.join("\n")
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
