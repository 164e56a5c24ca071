//! `petstore gateway`: REST in front of a core in another process.

use std::{ffi::OsString, net::SocketAddr};

use petstore_clock::Clock;
use petstore_gateway::Gateway;

use crate::{
    process::{
        self, Process, ProcessError, StartError,
        listener::{bind, bind_rest},
        startup_banner::StartupBanner,
    },
    settings::{
        self, CoreAddressSettings, EdgeSettings, EnvironmentSettings, LimiterSettings, ProcessSettings,
    },
};

/// Settings of a gateway.
#[derive(Clone, Debug, clap::Args)]
pub struct GatewaySettings {
    /// Where the core is.
    #[command(flatten)]
    pub core: CoreAddressSettings,
    /// Where REST is served, and to whom.
    #[command(flatten)]
    pub edge: EdgeSettings,
    /// Where requests are counted.
    #[command(flatten)]
    pub limiter: LimiterSettings,
    /// Which installation this is.
    #[command(flatten)]
    pub environment: EnvironmentSettings,
    /// The admin port, the shutdown, the log and traces.
    #[command(flatten)]
    pub process: ProcessSettings,
}

impl GatewaySettings {
    /// Returns the settings of `petstore gateway` with these flags, without the program's name. The
    /// environment's variables and the defaults complete them.
    ///
    /// # Errors
    ///
    /// If a flag or a variable cannot be used.
    pub fn from_flags<F: Into<OsString>>(flags: impl IntoIterator<Item = F>) -> Result<Self, clap::Error> {
        settings::from_flags(flags)
    }
}

/// Running gateway. If it is dropped instead of stopped, requests in flight are lost.
#[derive(Debug)]
pub struct RunningGateway {
    /// Address of REST; the real port, if 0 was asked for.
    pub http_addr: Option<SocketAddr>,
    /// Address of REST over HTTPS.
    pub https_addr: Option<SocketAddr>,
    /// Address of `/livez` and `/readyz`.
    pub admin_addr: SocketAddr,
    process: Process,
}

impl RunningGateway {
    /// Stops the gateway as SIGTERM does.
    pub async fn stop(self) {
        self.process.stop().await;
    }
}

/// Starts a gateway. When this returns, it accepts requests; it is ready when the core has answered. Installs
/// nothing global: neither a log nor signal handlers.
///
/// # Errors
///
/// If a setting cannot be used or a port cannot be listened on. Then nothing runs.
pub async fn start(settings: GatewaySettings, clock: Clock) -> Result<RunningGateway, StartError> {
    let core = settings.core.connect()?;
    let redis = settings.limiter.redis(&clock)?;
    let rest = bind_rest(&settings.edge).await?;
    let admin = bind("--admin-addr", &settings.process.admin_addr).await?;

    let mut process = Process::new(&settings.process);
    let traces = process.trace("petstore-gateway", &settings.process)?;
    let admin_addr = process.serve_admin(admin);
    let limiter = process.rate_limiter(redis, settings.limiter.resilience(), &clock).await;
    let edge = settings.edge.gateway(settings.environment.environment, traces);
    let core = process.reloadable(core, &settings.core);
    let gateway = Gateway::new(edge, core, limiter, clock);
    let rest = process.serve_rest(rest, &settings.edge, gateway);
    process.ready();
    Ok(RunningGateway { http_addr: rest.http, https_addr: rest.https, admin_addr, process })
}

pub(crate) fn run(settings: GatewaySettings, warnings: &[String]) -> Result<(), ProcessError> {
    process::run(&settings.process.clone(), warnings, async |clock| {
        let running = start(settings, clock).await?;
        let banner = StartupBanner {
            http: running.http_addr,
            https: running.https_addr,
            admin: Some(running.admin_addr),
            ..StartupBanner::default()
        };
        Ok((running.process, banner))
    })
}
