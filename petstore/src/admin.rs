//! Calls of operators' commands: methods of `AdminService`, over gRPC or on the store in this process.
//! Requests and answers are the JSON of the admin API.

use std::time::Duration;

use petstore_gateway::{admin_reason, call_admin, core_client::CoreTransport};
use petstore_proto::admin::v1::AdminErrorReason;
use serde_json::{Value, json};
use tokio::runtime;
use tonic::{
    Request, Status,
    metadata::{Ascii, MetadataValue},
};

use crate::{
    core_target::{CoreTarget, LocalCore, OperatorCoreSettings},
    error::CliError,
    output::{self, OutputSettings, PrintError, command_log, sentence},
    settings::InvalidSetting,
};

/// Deadline of a call.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// Rows of the largest page of a list.
const PAGE_SIZE: usize = 100;

/// Accounts whose names are compared with one that is unknown.
const MAX_SUGGESTED: usize = 1_000;

/// Core to call, and form of the result.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct AdminSettings {
    #[command(flatten)]
    target: CoreTarget<OperatorCoreSettings>,

    #[command(flatten)]
    output: OutputSettings,
}

/// Client of a core, authenticated as one operator.
#[derive(Debug)]
struct AdminCore {
    transport: CoreTransport,
    /// Token of the operator; `None` for the operator `local`.
    credential: Option<MetadataValue<Ascii>>,
}

impl AdminSettings {
    /// Calls a method, and prints its answer: as JSON, or as the text that `text` makes of it.
    pub(crate) fn run(
        &self,
        method: &str,
        request: &Value,
        text: impl FnOnce(&Value) -> String,
    ) -> Result<(), CliError> {
        self.print(&self.call(method, request)?, text)
    }

    /// Calls a method and returns its answer.
    pub(crate) fn call(&self, method: &str, request: &Value) -> Result<Value, CliError> {
        self.on_core(async |core| core.call(method, request).await)
    }

    /// Calls a method that lists, and prints the first `limit` rows as one page.
    pub(crate) fn list(
        &self,
        method: &str,
        request: &Value,
        limit: usize,
        text: impl FnOnce(&Value) -> String,
    ) -> Result<(), CliError> {
        let answer = self.on_core(async |core| core.list(method, request, limit).await)?;
        self.print(&answer, text)
    }

    /// Calls a method that makes a secret, which is the member `secret` of the answer. As text it is printed
    /// alone on stdout, so that it can be piped to a file or another program; `note` and `remedy` are
    /// sentences about the answer.
    pub(crate) fn run_once(
        &self,
        method: &str,
        request: &Value,
        secret: &str,
        note: &str,
        remedy: &str,
    ) -> Result<(), CliError> {
        let answer = self.call(method, request)?;
        self.print(&answer, |answer| sentence(&format!("{{{secret}}}"), answer)).map_err(
            |error| match error {
                CliError::Print(PrintError(source)) => {
                    let remedy = sentence(remedy, &answer).trim_end().to_owned();
                    CliError::SecretNotShown { remedy, source }
                }
                other => other,
            },
        )?;
        if self.output.is_text() {
            output::note(sentence(note, &answer).trim_end());
        }
        Ok(())
    }

    /// Prints an answer in the requested form.
    pub(crate) fn print(&self, answer: &Value, text: impl FnOnce(&Value) -> String) -> Result<(), CliError> {
        Ok(self.output.print(|| text(answer), || answer.clone())?)
    }

    /// Calls a core behind a gRPC port, or one in this process on the store. The store must exist and have
    /// the schema of this version.
    fn on_core<T>(&self, work: impl AsyncFnOnce(&AdminCore) -> Result<T, CliError>) -> Result<T, CliError> {
        command_log();
        let runtime =
            runtime::Builder::new_current_thread().enable_all().build().map_err(CliError::runtime)?;
        runtime.block_on(async {
            match &self.target {
                CoreTarget::Remote(core) => {
                    let credential = Some(credential(core.token()?.expose())?);
                    work(&AdminCore { transport: core.connect()?, credential }).await
                }
                CoreTarget::Store(settings) => {
                    let local = LocalCore::open(settings).await?;
                    let transport = local.transport_as_local_operator();
                    let done = work(&AdminCore { transport, credential: None }).await;
                    local.close().await;
                    done
                }
            }
        })
    }
}

impl AdminCore {
    async fn call(&self, method: &str, request: &Value) -> Result<Value, CliError> {
        match self.send(method, request).await {
            Err(status) if admin_reason(&status) == Some(AdminErrorReason::AccountNotFound) => {
                let name = request["account"].as_str().unwrap_or_default();
                match self.similar_account(name).await {
                    Some(meant) => Err(CliError::UnknownAccount { source: status.into(), meant }),
                    None => Err(status.into()),
                }
            }
            answered => Ok(answered?),
        }
    }

    async fn send(&self, method: &str, request: &Value) -> Result<Value, Status> {
        let mut request = Request::new(request);
        if let Some(credential) = &self.credential {
            request.metadata_mut().insert("authorization", credential.clone());
        }
        call_admin(self.transport.clone(), method, request, CALL_TIMEOUT).await
    }

    /// Calls a method that lists page by page, until there are `limit` rows, and returns the first page with
    /// all of them.
    async fn list(&self, method: &str, request: &Value, limit: usize) -> Result<Value, CliError> {
        let mut request = request.clone();
        request["pageSize"] = json!(PAGE_SIZE.min(limit));
        let mut answer = self.call(method, &request).await?;
        loop {
            let next = answer["nextPageToken"].clone();
            let rows = rows(&mut answer).map_or(0, |rows| rows.len());
            if next == "" || rows >= limit {
                return Ok(answer);
            }
            request["pageToken"] = next;
            request["pageSize"] = json!(PAGE_SIZE.min(limit - rows));
            let mut page = self.call(method, &request).await?;
            answer["nextPageToken"] = page["nextPageToken"].take();
            if let (Some(rows), Some(more)) = (self::rows(&mut answer), self::rows(&mut page)) {
                rows.append(more);
            }
        }
    }

    /// Returns the name of the account that is most similar to this one, if one is similar enough.
    async fn similar_account(&self, name: &str) -> Option<String> {
        let mut names = Vec::new();
        let mut request = json!({ "pageSize": PAGE_SIZE });
        loop {
            let page = self.send("ListAccounts", &request).await.ok()?;
            let accounts = page["accounts"].as_array().into_iter().flatten();
            names.extend(accounts.filter_map(|account| account["name"].as_str().map(str::to_owned)));
            let next = &page["nextPageToken"];
            if next == "" || names.len() >= MAX_SUGGESTED {
                return output::most_similar(name, names);
            }
            request["pageToken"] = next.clone();
        }
    }
}

/// Returns the rows of a page: its only array.
fn rows(page: &mut Value) -> Option<&mut Vec<Value>> {
    page.as_object_mut()?.values_mut().find_map(Value::as_array_mut)
}

/// Returns the metadata that shows an operator's token.
fn credential(token: &str) -> Result<MetadataValue<Ascii>, InvalidSetting> {
    let mut value: MetadataValue<Ascii> = format!("Bearer {token}")
        .parse()
        .map_err(|_| InvalidSetting::new("--operator-token-file", "must hold an operator token"))?;
    value.set_sensitive(true);
    Ok(value)
}

/// Returns a duration as the admin API writes it.
pub(crate) fn seconds(duration: Duration) -> String {
    format!("{}.{:03}s", duration.as_secs(), duration.subsec_millis())
}
