//! `petstore gateway`: REST in front of a core elsewhere.

use std::sync::Arc;

use petstore_clock::Clock;
use petstore_gateway::{Gateway, core_client, limit::InProcessLimiter};

use crate::{
    announcement::Announcement,
    error::{Failure, StartError},
    listener::bind,
    process::{self, Process},
    settings::{EdgeSettings, EnvironmentSettings, InvalidSetting, ProcessSettings},
};

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct GatewaySettings {
    /// The core's gRPC port. The gateway starts without it, and is ready when it has answered
    #[arg(long, env = "PETSTORE_CORE_URL", default_value = "http://127.0.0.1:50051", value_name = "URL")]
    core_url: String,
    #[command(flatten)]
    edge: EdgeSettings,
    #[command(flatten)]
    environment: EnvironmentSettings,
    #[command(flatten)]
    process: ProcessSettings,
}

pub(crate) fn run(settings: &GatewaySettings) -> Result<(), Failure> {
    process::run(&settings.process, async |clock| start(settings, clock).await)
}

async fn start(settings: &GatewaySettings, clock: Clock) -> Result<(Process, Announcement), StartError> {
    let core = core_client::connect(&settings.core_url)
        .map_err(|error| InvalidSetting::new("--core-url", error.to_string()))?;
    let http = bind("--http-addr", settings.edge.http_addr).await?;
    let admin = bind("--admin-addr", settings.process.admin_addr).await?;

    let mut process = Process::new(&settings.process);
    let admin_addr = process.serve_admin(admin);
    let limiter = Arc::new(InProcessLimiter::new(clock.clone()));
    let gateway = Gateway::new(settings.edge.gateway(settings.environment.environment), core, limiter, clock);
    let http_addr = process.serve_http(http, gateway);
    process.ready();
    let announcement =
        Announcement { http: Some(http_addr), admin: Some(admin_addr), ..Announcement::default() };
    Ok((process, announcement))
}
