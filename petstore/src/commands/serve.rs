//! `petstore serve`: the whole service in one process.

use std::{ffi::OsString, net::SocketAddr, path::PathBuf, sync::Arc};

use petstore_clock::Clock;
use petstore_core::{Core, grpc, store::Store};
use petstore_gateway::{
    Gateway,
    core_client::{CoreConnection, CoreTransport},
};
use petstore_telemetry::metrics::Exposition;

use crate::{
    process::{
        self, Process, ProcessError, StartError, first_secrets,
        listener::{bind, bind_grpc, bind_rest},
        startup_banner::StartupBanner,
    },
    settings::{
        self, EdgeSettings, EnvironmentSettings, GrpcAddr, GrpcSettings, LimiterSettings, ProcessSettings,
        StoreSettings,
    },
};

/// Settings of the whole service in one process.
#[derive(Clone, Debug, clap::Args)]
pub struct ServeSettings {
    /// Where the store is, and how it is used.
    #[command(flatten)]
    pub store: StoreSettings,
    /// Where REST is served, and to whom.
    #[command(flatten)]
    pub edge: EdgeSettings,
    /// Where requests are counted.
    #[command(flatten)]
    pub limiter: LimiterSettings,
    /// Where gRPC is served.
    #[command(flatten)]
    pub grpc: GrpcSettings,
    /// Which installation this is.
    #[command(flatten)]
    pub environment: EnvironmentSettings,
    /// The admin port, the shutdown, the log and traces.
    #[command(flatten)]
    pub process: ProcessSettings,
}

impl ServeSettings {
    /// Returns the settings of `petstore serve` with these flags, without the program's name. The
    /// environment's variables and the defaults complete them.
    ///
    /// # Errors
    ///
    /// If a flag or a variable cannot be used.
    pub fn from_flags<F: Into<OsString>>(flags: impl IntoIterator<Item = F>) -> Result<Self, clap::Error> {
        settings::from_flags(flags)
    }
}

/// Running service. If it is dropped instead of stopped, requests in flight are lost.
#[derive(Debug)]
pub struct RunningService {
    /// Address of REST; the real port, if 0 was asked for.
    pub http_addr: Option<SocketAddr>,
    /// Address of REST over HTTPS.
    pub https_addr: Option<SocketAddr>,
    /// Address of gRPC.
    pub grpc_addr: GrpcAddr,
    /// Address of the admin port.
    pub admin_addr: SocketAddr,
    /// File with the first API key, if the store was new.
    pub first_key_file: Option<PathBuf>,
    /// File with the token of the first operator, if the store was new.
    pub first_operator_file: Option<PathBuf>,
    store: Store,
    process: Process,
}

impl RunningService {
    /// Returns the store, for changes while the service runs.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Returns the metrics of the service.
    #[must_use]
    pub fn metrics(&self) -> &Exposition {
        self.process.metrics()
    }

    /// Stops the service as SIGTERM does: readiness falls, REST and then gRPC finish the requests in flight,
    /// background work ends, the store closes.
    pub async fn stop(self) {
        self.process.stop().await;
    }
}

/// Starts the whole service. When this returns, it accepts requests. Installs nothing global: neither a log
/// nor signal handlers.
///
/// # Errors
///
/// If a setting cannot be used, a port cannot be listened on or the store cannot be opened. Then nothing
/// runs.
pub async fn start(settings: ServeSettings, clock: Clock) -> Result<RunningService, StartError> {
    let url = settings.store.database.url()?;
    let replicas = settings.store.replicas(&url)?;
    let security = settings.grpc.security()?;
    let redis = settings.limiter.redis(&clock)?;
    // Ports are bound first: they fail most often, and then no store must have been created.
    let rest = bind_rest(&settings.edge).await?;
    let grpc = bind_grpc(&settings.grpc.grpc_addr).await?;
    let admin = bind("--admin-addr", &settings.process.admin_addr).await?;

    let mut process = Process::new(&settings.process);
    let traces = process.trace("petstore", &settings.process)?;
    let admin_addr = process.serve_admin(admin);
    let environment = settings.environment.environment;
    let store = process.open_store(&url, &replicas, settings.store.open_options()).await?;
    let store = store.with_pet_cache(settings.store.pet_cache);
    let first_key_file = first_secrets::create_account(&store, &url, environment, &clock).await?;
    let first_operator_file = first_secrets::create_operator(&store, &url, &clock).await?;
    if let Some(file) = &first_operator_file {
        tracing::info!(file = %file.display(), "wrote the token of the first operator, an admin");
    }

    let limiter = process.rate_limiter(redis, settings.limiter.resilience(), &clock).await;
    let core = Core::new(store.clone(), clock.clone()).for_environment(environment).traced(traces.clone());
    let gateway = Gateway::new(
        settings.edge.gateway(environment, traces),
        CoreConnection::in_process(
            CoreTransport::new(grpc::in_memory(&core)),
            Arc::new(grpc::in_process(&core)),
        ),
        limiter,
        clock,
    );
    gateway.ask_core_once().await;
    let grpc_addr = process.serve_grpc(grpc, &settings.grpc, security, core);
    let rest = process.serve_rest(rest, &settings.edge, gateway);
    process.ready();
    Ok(RunningService {
        http_addr: rest.http,
        https_addr: rest.https,
        grpc_addr,
        admin_addr,
        first_key_file,
        first_operator_file,
        store,
        process,
    })
}

pub(crate) fn run(settings: ServeSettings, warnings: &[String]) -> Result<(), ProcessError> {
    process::run(&settings.process.clone(), warnings, async |clock| {
        let url = settings.store.database.url()?;
        let running = start(settings, clock).await?;
        let banner = StartupBanner {
            http: running.http_addr,
            https: running.https_addr,
            grpc: Some(running.grpc_addr),
            admin: Some(running.admin_addr),
            store: Some(url.to_string()),
            first_key_file: running.first_key_file,
            first_operator_file: running.first_operator_file,
        };
        Ok((running.process, banner))
    })
}
