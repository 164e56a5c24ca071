//! What the operator's commands share: the client of `AdminService`, over gRPC or in this process on the
//! store.

use std::time::Duration;

use petstore_clock::UnixMillis;
use petstore_proto::admin::v1::admin_service_client::AdminServiceClient;
use prost_types::Timestamp;
use tokio::runtime;
use tonic::{
    Request, Status,
    metadata::{Ascii, MetadataValue},
    service::{Interceptor, interceptor::InterceptedService},
};

use petstore_gateway::core_client::CoreTransport;

use crate::{
    core_target::{CoreTarget, LocalCore, OperatorCoreSettings},
    error::CliError,
    output::{OutputSettings, command_log},
    settings::InvalidSetting,
};

/// How long a call may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// The largest page of a list.
pub(crate) const PAGE_SIZE: i32 = 100;

/// Which core to call, and how to print the result.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct AdminSettings {
    #[command(flatten)]
    target: CoreTarget<OperatorCoreSettings>,

    #[command(flatten)]
    output: OutputSettings,
}

/// The client of `AdminService`.
pub(crate) type AdminClient = AdminServiceClient<InterceptedService<CoreTransport, Credential>>;

impl AdminSettings {
    /// Calls the core, which is one behind a gRPC port or one in this process on the store. That must exist
    /// and have the schema of this version.
    pub(crate) fn call<T>(
        &self,
        work: impl AsyncFnOnce(AdminClient) -> Result<T, CliError>,
    ) -> Result<T, CliError> {
        command_log();
        let runtime =
            runtime::Builder::new_current_thread().enable_all().build().map_err(CliError::runtime)?;
        runtime.block_on(async {
            match &self.target {
                CoreTarget::Remote(core) => {
                    let credential = Credential::new(core.token()?.expose())?;
                    work(AdminServiceClient::with_interceptor(core.connect()?, credential)).await
                }
                CoreTarget::Store(settings) => {
                    let local = LocalCore::open(settings).await?;
                    let transport = local.transport_as_local_operator();
                    let done = work(AdminServiceClient::with_interceptor(transport, Credential(None))).await;
                    local.close().await;
                    done
                }
            }
        })
    }

    /// Whether results are for people.
    pub(crate) fn is_text(&self) -> bool {
        self.output.is_text()
    }

    /// Prints a result in the requested form.
    pub(crate) fn print(
        &self,
        text: impl FnOnce() -> String,
        json: impl FnOnce() -> serde_json::Value,
    ) -> Result<(), CliError> {
        Ok(self.output.print(text, json)?)
    }
}

/// Sends the operator's token and a deadline with each call.
#[derive(Clone, Debug)]
pub(crate) struct Credential(Option<MetadataValue<Ascii>>);

impl Credential {
    fn new(token: &str) -> Result<Self, InvalidSetting> {
        let mut value: MetadataValue<Ascii> = format!("Bearer {token}")
            .parse()
            .map_err(|_| InvalidSetting::new("--operator-token-file", "must hold an operator token"))?;
        value.set_sensitive(true);
        Ok(Self(Some(value)))
    }
}

impl Interceptor for Credential {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        request.set_timeout(CALL_TIMEOUT);
        if let Some(credential) = &self.0 {
            request.metadata_mut().insert("authorization", credential.clone());
        }
        Ok(request)
    }
}

/// All items of a paged list; `page` returns those of one page and the token of the next.
pub(crate) async fn all_pages<T>(
    mut page: impl AsyncFnMut(String) -> Result<(Vec<T>, String), Status>,
) -> Result<Vec<T>, Status> {
    let (mut items, mut next) = page(String::new()).await?;
    while !next.is_empty() {
        let (more, after) = page(next).await?;
        items.extend(more);
        next = after;
    }
    Ok(items)
}

/// A moment of a message, if it has one.
pub(crate) fn moment(timestamp: Option<&Timestamp>) -> Option<UnixMillis> {
    let Timestamp { seconds, nanos } = *timestamp?;
    let millis = u64::try_from(nanos).unwrap_or_default() / 1_000_000;
    Some(UnixMillis(u64::try_from(seconds).unwrap_or_default().saturating_mul(1_000).saturating_add(millis)))
}

/// A moment as people and programs read it, or `otherwise`.
pub(crate) fn written(timestamp: Option<&Timestamp>, otherwise: &str) -> String {
    moment(timestamp).map_or_else(|| otherwise.to_owned(), |moment| moment.to_string())
}

/// A moment for a message.
pub(crate) fn timestamp(moment: UnixMillis) -> Timestamp {
    let nanos = i32::try_from(moment.0 % 1_000 * 1_000_000).unwrap_or_default();
    Timestamp { seconds: i64::try_from(moment.as_secs()).unwrap_or(i64::MAX), nanos }
}

/// A duration for a message.
pub(crate) fn duration(duration: Duration) -> prost_types::Duration {
    let seconds = i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
    prost_types::Duration { seconds, nanos: i32::try_from(duration.subsec_nanos()).unwrap_or_default() }
}

/// The name of an enum value in lower case and without the name of its enum: `PLAN_FREE` is `free`.
pub(crate) fn value_name(name: &str, prefix: &str) -> String {
    name.strip_prefix(prefix).unwrap_or(name).to_lowercase().replace('_', "-")
}
