//! `petstore explain`: why requests were refused within the last 24 hours.

use serde_json::{Value, json};

use crate::{admin::AdminSettings, error::CliError, output::sentence};

#[derive(Debug, clap::Args)]
#[group(id = "subject", required = true, multiple = true, args = ["request_id", "account", "key"])]
pub(crate) struct ExplainSettings {
    /// The X-Request-Id of a refused request
    #[arg(value_name = "REQUEST_ID")]
    request_id: Option<String>,

    /// Requests of this account; with `REQUEST_ID`, that request of this account
    #[arg(long, value_name = "NAME")]
    account: Option<String>,

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
pub(crate) fn run(explain: &ExplainSettings) -> Result<(), CliError> {
    let ExplainSettings { request_id, account, key, settings } = explain;
    let request = json!({ "requestId": request_id, "account": account, "keyId": key });
    let answer = settings.call("ExplainRefusal", &request)?;
    settings.print(&answer, text)?;
    if answer["note"] == "" { Ok(()) } else { Err(CliError::NotFound) }
}

fn text(answer: &Value) -> String {
    let explanations = answer["explanations"].as_array().into_iter().flatten();
    let explanations = explanations.map(|it| sentence("{sentence}\n  {remedy}", it));
    let note = Some(sentence("{note}", answer)).filter(|_| answer["note"] != "");
    explanations.chain(note).collect::<Vec<_>>().join("\n")
}
