//! Calls of operators' commands: methods of `AdminService`, over gRPC or on the store in this process.
//! Requests and answers are the JSON of the admin API.

use std::time::Duration;

use clap::Subcommand;
use petstore_admin_web::call_admin;
use petstore_command_line::output::{self, Column, OutputSettings, PrintError, sentence, table};
use petstore_core_client::CoreTransport;
use petstore_settings::InvalidSetting;
use serde_json::{Value, json};
use tonic::{
    Request,
    metadata::{Ascii, MetadataValue},
};

use crate::{
    core_target::{CoreTarget, OperatorCoreSettings, block_on},
    error::CommandError,
};

/// Deadline of a call.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// Rows of the largest page of a list.
const PAGE_SIZE: usize = 100;

/// Core to call, and form of the result.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct AdminSettings {
    #[command(flatten)]
    target: CoreTarget<OperatorCoreSettings>,

    #[command(flatten)]
    output: OutputSettings,
}

/// Commands of one kind, and the core that they call.
#[derive(Debug, clap::Args)]
pub struct AdminCommand<C: Subcommand> {
    #[command(subcommand)]
    pub(crate) command: C,

    #[command(flatten)]
    pub(crate) settings: AdminSettings,
}

/// Client of a core, authenticated as one operator.
#[derive(Debug)]
struct AdminClient {
    transport: CoreTransport,
    /// Token of the operator; `None` for the operator `local`.
    credential: Option<MetadataValue<Ascii>>,
}

impl AdminSettings {
    /// Calls a method, and prints its answer: as JSON, or as a [sentence] about it and the request.
    pub(crate) fn say(&self, method: &str, request: &Value, template: &str) -> Result<(), CommandError> {
        self.print(&self.call(method, request)?, |answer| {
            let members = [request, answer].map(|it| it.as_object().cloned().unwrap_or_default());
            sentence(template, &members.into_iter().flatten().collect())
        })
    }

    /// Calls a method, and prints its answer: as JSON, or as a [table] of one row.
    pub(crate) fn show(&self, method: &str, request: &Value, columns: &[Column]) -> Result<(), CommandError> {
        self.print(&self.call(method, request)?, |answer| table(columns, answer))
    }

    /// Calls a method and returns its answer.
    pub(crate) fn call(&self, method: &str, request: &Value) -> Result<Value, CommandError> {
        block_on(Box::pin(self.connected(async move |client| client.call(method, request).await)))
    }

    /// Calls a method that lists, and prints all rows as one page.
    pub(crate) fn list(&self, method: &str, request: &Value, columns: &[Column]) -> Result<(), CommandError> {
        let mut page = self.pages(method, request, usize::MAX)?;
        let rows = rows(&mut page).cloned().unwrap_or_default();
        self.print(&page, |_| table(columns, &Value::Array(rows)))
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
    ) -> Result<(), CommandError> {
        let answer = self.call(method, request)?;
        let printed = self.output.print(&answer, |answer| sentence(&format!("{{{secret}}}"), answer));
        printed.map_err(|PrintError(source)| {
            let remedy = sentence(remedy, &answer).trim_end().to_owned();
            CommandError::SecretNotShown { remedy, source }
        })?;
        if self.output.is_text() {
            output::note(sentence(note, &answer).trim_end());
        }
        Ok(())
    }

    /// Prints an answer in the requested form.
    pub(crate) fn print(
        &self,
        answer: &Value,
        text: impl FnOnce(&Value) -> String,
    ) -> Result<(), CommandError> {
        Ok(self.output.print(answer, text)?)
    }

    /// Calls a method that lists, until there are `limit` rows, and returns the first page with all of them.
    pub(crate) fn pages(&self, method: &str, request: &Value, limit: usize) -> Result<Value, CommandError> {
        let mut all = Value::Null;
        self.each_page(method, request, limit, |mut page| {
            all["nextPageToken"] = page["nextPageToken"].clone();
            match (rows(&mut all), rows(&mut page)) {
                (Some(rows), Some(more)) => rows.append(more),
                _ => all = page, // the first one
            }
            Ok(())
        })?;
        Ok(all)
    }

    /// Calls a method that lists, until there are `limit` rows, and gives each page to `take` before it
    /// requests the next: a list of any length takes the memory of one page.
    pub(crate) fn each_page(
        &self,
        method: &str,
        request: &Value,
        limit: usize,
        mut take: impl FnMut(Value) -> Result<(), CommandError>,
    ) -> Result<(), CommandError> {
        let (mut request, mut left) = (request.clone(), limit);
        block_on(Box::pin(self.connected(async move |client| {
            loop {
                request["pageSize"] = json!(PAGE_SIZE.min(left));
                let mut page = client.call(method, &request).await?;
                left = left.saturating_sub(rows(&mut page).map_or(0, |rows| rows.len()));
                request["pageToken"] = page["nextPageToken"].clone();
                take(page)?;
                if request["pageToken"] == "" || left == 0 {
                    return Ok(());
                }
            }
        })))
    }

    /// Connects to the core for this work.
    async fn connected<T>(
        &self,
        work: impl AsyncFnOnce(&AdminClient) -> Result<T, CommandError>,
    ) -> Result<T, CommandError> {
        let credential = match &self.target {
            CoreTarget::Remote(core) => Some(credential(core.token()?.expose())?),
            CoreTarget::Store(_) => None,
        };
        let core = self.target.connect().await?;
        let client = AdminClient { transport: core.transport.clone(), credential };
        let result = work(&client).await;
        core.close().await;
        result
    }
}

impl AdminClient {
    async fn call(&self, method: &str, request: &Value) -> Result<Value, CommandError> {
        let mut request = Request::new(request);
        if let Some(credential) = &self.credential {
            request.metadata_mut().insert("authorization", credential.clone());
        }
        Ok(call_admin(self.transport.clone(), method, request, CALL_TIMEOUT).await?)
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
