//! `petstore serve`, `core` and `gateway`: the whole service in one process, and its halves.

use std::sync::Arc;

use petstore_admin_service::Administration;
use petstore_caller::api_key::{ApiKey, OperatorToken};
use petstore_clock::Clock;
use petstore_core::{Core, server};
use petstore_core_client::{CoreServices, CoreTransport};
use petstore_gateway::Gateway;

use petstore_settings::{
    CoreAddressSettings, EdgeSettings, GrpcSettings, LimiterSettings, ProcessSettings, StoreSettings,
};

use crate::process::{
    FirstSecret, Process, ProcessError, Reloads,
    listener::{bind_grpc, bind_rest},
};

/// Settings of the whole service in one process.
#[derive(Clone, Debug, clap::Args)]
pub struct ServeSettings {
    /// The store.
    #[command(flatten)]
    pub store: StoreSettings,
    /// The ports of REST, and its clients.
    #[command(flatten)]
    pub edge: EdgeSettings,
    /// The place where requests are counted.
    #[command(flatten)]
    pub limiter: LimiterSettings,
    /// The gRPC port, and its callers.
    #[command(flatten)]
    pub grpc: GrpcSettings,
    /// The environment, the admin port, the shutdown, the log and traces.
    #[command(flatten)]
    pub process: ProcessSettings,
}

/// Settings of a core.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct CoreSettings {
    #[command(flatten)]
    store: StoreSettings,
    #[command(flatten)]
    grpc: GrpcSettings,
    #[command(flatten)]
    pub(crate) process: ProcessSettings,
}

/// Settings of a gateway.
#[derive(Clone, Debug, clap::Args)]
pub struct GatewaySettings {
    /// The core.
    #[command(flatten)]
    pub core: CoreAddressSettings,
    /// The ports of REST, and its clients.
    #[command(flatten)]
    pub edge: EdgeSettings,
    /// The place where requests are counted.
    #[command(flatten)]
    pub limiter: LimiterSettings,
    /// The environment, the admin port, the shutdown, the log and traces.
    #[command(flatten)]
    pub process: ProcessSettings,
}

/// Starts the whole service. When this returns, it accepts requests. Installs nothing global: neither a log
/// nor signal handlers.
///
/// # Errors
///
/// If a setting cannot be used, a port cannot be listened on or the store cannot be opened. Then nothing
/// runs.
pub async fn start_service(settings: ServeSettings, clock: Clock) -> Result<Process, ProcessError> {
    let files = settings.edge.files().chain(settings.grpc.files()).chain(settings.process.files());
    let reloads = Reloads::before_start(files);
    let url = settings.store.database.url()?;
    let replicas = settings.store.replicas(&url)?;
    let security = settings.grpc.security()?;
    let redis = settings.limiter.redis(&clock)?;
    // Ports are bound before the store is created, because they fail most often.
    let rest = bind_rest(&settings.edge).await?;
    let grpc = bind_grpc(&settings.grpc.grpc_addr).await?;
    let (mut process, traces) = Process::start(&settings.process, "petstore", reloads).await?;
    let store = process.open_store(&url, &replicas, &settings.store).await?;
    let environment = settings.process.environment;
    let key = FirstSecret::ApiKey(ApiKey::generate(environment));
    process.addresses.first_key_file = key.create(&store, &url, &clock).await?;
    let token = FirstSecret::OperatorToken(OperatorToken::generate());
    process.addresses.first_operator_file = token.create(&store, &url, &clock).await?;
    if let Some(file) = &process.addresses.first_operator_file {
        tracing::info!(file = %file.display(), "wrote the token of the first operator, an admin");
    }

    let limiter = process.rate_limiter(redis, &settings.limiter, &clock).await;
    let core = Core::new(store, clock.clone()).for_environment(environment).traced(traces.clone());
    let services = Administration::new(core.clone()).services();
    let transport = CoreTransport::new(server::in_memory(services.clone()));
    let options = settings.edge.gateway(environment, traces);
    let in_process = CoreServices::from(Arc::new(core.clone()));
    let gateway = Gateway::new(options, transport, Some(in_process), limiter, clock);
    gateway.ask_core_once().await;
    process.serve_grpc(grpc, &settings.grpc, security, core, services);
    process.serve_rest(rest, &settings.edge, gateway);
    process.ready();
    Ok(process)
}

pub(crate) async fn start_core(settings: CoreSettings, clock: Clock) -> Result<Process, ProcessError> {
    let reloads = Reloads::before_start(settings.grpc.files().chain(settings.process.files()));
    let url = settings.store.database.url()?;
    let replicas = settings.store.replicas(&url)?;
    let security = settings.grpc.security()?;
    let grpc = bind_grpc(&settings.grpc.grpc_addr).await?;
    let (mut process, traces) = Process::start(&settings.process, "petstore-core", reloads).await?;
    let store = process.open_store(&url, &replicas, &settings.store).await?;
    let core = Core::new(store, clock).for_environment(settings.process.environment).traced(traces);
    let services = Administration::new(core.clone()).services();
    process.serve_grpc(grpc, &settings.grpc, security, core, services);
    process.ready();
    Ok(process)
}

/// Starts a gateway. When this returns, it accepts requests; it is ready when the core has answered. Installs
/// nothing global: neither a log nor signal handlers.
///
/// # Errors
///
/// If a setting cannot be used or a port cannot be listened on. Then nothing runs.
pub async fn start_gateway(settings: GatewaySettings, clock: Clock) -> Result<Process, ProcessError> {
    let files = settings.core.files().chain(settings.edge.files()).chain(settings.process.files());
    let reloads = Reloads::before_start(files);
    let core = settings.core.connect()?;
    let redis = settings.limiter.redis(&clock)?;
    let rest = bind_rest(&settings.edge).await?;
    let (mut process, traces) = Process::start(&settings.process, "petstore-gateway", reloads).await?;
    let core = process.reloadable(core, &settings.core);
    let limiter = process.rate_limiter(redis, &settings.limiter, &clock).await;
    let options = settings.edge.gateway(settings.process.environment, traces);
    process.serve_rest(rest, &settings.edge, Gateway::new(options, core, None, limiter, clock));
    process.ready();
    Ok(process)
}
