//! `petstore core`: the store and its gRPC port.

use petstore_clock::Clock;
use petstore_core::Core;

use crate::{
    process::{
        self, Process, ProcessError, StartError,
        listener::{bind, bind_grpc},
        startup_banner::StartupBanner,
    },
    settings::{EnvironmentSettings, GrpcSettings, ProcessSettings, StoreSettings},
};

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct CoreSettings {
    #[command(flatten)]
    store: StoreSettings,
    #[command(flatten)]
    grpc: GrpcSettings,
    #[command(flatten)]
    environment: EnvironmentSettings,
    #[command(flatten)]
    process: ProcessSettings,
}

pub(crate) fn run(settings: &CoreSettings, warnings: &[String]) -> Result<(), ProcessError> {
    process::run(&settings.process, warnings, async |clock| start(settings, clock).await)
}

async fn start(settings: &CoreSettings, clock: Clock) -> Result<(Process, StartupBanner), StartError> {
    let url = settings.store.database.url()?;
    let replicas = settings.store.replicas(&url)?;
    let security = settings.grpc.security()?;
    let grpc = bind_grpc(&settings.grpc.grpc_addr).await?;
    let admin = bind("--admin-addr", &settings.process.admin_addr).await?;

    let mut process = Process::new(&settings.process);
    let traces = process.trace("petstore-core", &settings.process)?;
    let admin_addr = process.serve_admin(admin);
    let store = process.open_store(&url, &replicas, settings.store.open_options()).await?;
    let store = store.with_pet_cache(settings.store.pet_cache);
    let core = Core::new(store, clock).for_environment(settings.environment.environment).traced(traces);
    let grpc_addr = process.serve_grpc(grpc, &settings.grpc, security, core);
    process.ready();
    let banner = StartupBanner {
        grpc: Some(grpc_addr),
        admin: Some(admin_addr),
        store: Some(url.to_string()),
        ..StartupBanner::default()
    };
    Ok((process, banner))
}
