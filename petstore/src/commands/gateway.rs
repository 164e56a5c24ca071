//! `petstore gateway`: REST in front of a core elsewhere.

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

/// What can be set for a gateway alone.
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
    /// The admin port, the end and the log.
    #[command(flatten)]
    pub process: ProcessSettings,
}

impl GatewaySettings {
    /// The settings that these flags make, as `petstore gateway` would take them: without the program's name, and
    /// completed by the environment's variables and by the defaults.
    ///
    /// # Errors
    ///
    /// When a flag or a variable cannot be used.
    pub fn from_flags<F: Into<OsString>>(flags: impl IntoIterator<Item = F>) -> Result<Self, clap::Error> {
        settings::from_flags(flags)
    }
}

/// A gateway, running. Dropped instead of stopped, it ends without order.
#[derive(Debug)]
pub struct Running {
    /// Where REST is served; the real port, if 0 was asked for.
    pub http_addr: Option<SocketAddr>,
    /// Where REST is served over HTTPS.
    pub https_addr: Option<SocketAddr>,
    /// Where `/livez` and `/readyz` are served.
    pub admin_addr: SocketAddr,
    process: Process,
}

impl Running {
    /// Ends the gateway in order, as SIGTERM does.
    pub async fn stop(self) {
        self.process.stop().await;
    }
}

/// Starts a gateway. When this returns, it takes requests; it is ready when the core has answered. Installs nothing
/// global: neither a log nor signal handlers.
///
/// # Errors
///
/// When a setting cannot be used or a port cannot be listened on. Then nothing runs.
pub async fn start(settings: GatewaySettings, clock: Clock) -> Result<Running, StartError> {
    let core = settings.core.connect()?;
    let redis = settings.limiter.redis(&clock)?;
    let rest = bind_rest(&settings.edge).await?;
    let admin = bind("--admin-addr", &settings.process.admin_addr).await?;

    let mut process = Process::new(&settings.process);
    let traces = process.trace("petstore-gateway", &settings.process.traces)?;
    let admin_addr = process.serve_admin(admin);
    let limiter = process.count_requests(redis, settings.limiter.resilience(), &clock).await;
    let edge = settings.edge.gateway(settings.environment.environment, traces);
    let core = process.reloadable(core, &settings.core);
    let gateway = Gateway::new(edge, core, limiter, clock);
    let rest = process.serve_rest(rest, &settings.edge, gateway);
    process.ready();
    Ok(Running { http_addr: rest.http, https_addr: rest.https, admin_addr, process })
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
