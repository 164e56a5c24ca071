//! What every request shares, and how ready the gateway is.

use std::{fmt, future::Future, sync::Arc};

use futures_util::FutureExt;
use petstore_api_key::Environment;
use petstore_clock::Clock;
use petstore_telemetry::metrics::Collectors;
use petstore_telemetry::traces::Traces;

use crate::{
    client_address::TrustedProxies,
    core_client::{CoreClient, CoreConnection},
    cors::CorsOrigin,
    keys::KeyResolver,
    metrics::Metrics,
    rate_limit::RateLimiter,
    usage::UsageCounter,
};

/// What an operator chooses.
#[derive(Debug)]
pub struct GatewayOptions {
    /// Whose keys are accepted.
    pub environment: Environment,
    /// The peers whose `X-Forwarded-For` is believed.
    pub trusted_proxies: TrustedProxies,
    /// The origins whose web pages may read answers (CORS); none by default.
    pub cors_origins: Vec<CorsOrigin>,
    /// Whether keys that ignore 429 are banned, and bans hold.
    pub bans: bool,
    /// Records what requests do.
    pub traces: Traces,
}

impl GatewayOptions {
    /// Those of a gateway for keys of that environment, whose clients call it without proxies and not from
    /// web pages: bans hold, and nothing is traced.
    #[must_use]
    pub fn new(environment: Environment) -> Self {
        Self {
            environment,
            trusted_proxies: TrustedProxies::default(),
            cors_origins: Vec::new(),
            bans: true,
            traces: Traces::off(),
        }
    }
}

/// The gateway's state. Clones share it.
#[derive(Clone, Debug)]
pub struct Gateway(Arc<GatewayState>);

/// What handlers and layers see.
#[derive(Debug)]
pub(crate) struct GatewayState {
    pub(crate) settings: GatewayOptions,
    pub(crate) clock: Clock,
    pub(crate) limiter: Arc<dyn RateLimiter>,
    pub(crate) keys: KeyResolver,
    pub(crate) core: CoreClient,
    pub(crate) metrics: Metrics,
    pub(crate) usage: Arc<UsageCounter>,
}

impl Gateway {
    /// A gateway in front of `core`, that counts with `limiter`.
    #[must_use]
    pub fn new(
        settings: GatewayOptions,
        core: impl Into<CoreConnection>,
        limiter: Arc<dyn RateLimiter>,
        clock: Clock,
    ) -> Self {
        let core = CoreClient::from(core.into());
        Self(Arc::new(GatewayState {
            settings,
            keys: KeyResolver::new(core.transport().clone(), Arc::clone(&limiter), clock.clone()),
            limiter,
            usage: Arc::new(UsageCounter::new(core.transport().clone(), clock.clone())),
            core,
            clock,
            metrics: Metrics::default(),
        }))
    }

    /// Keeps what is known of keys up to date and reports usage until `shutdown`, and then what is left of
    /// it. Without it, revoked keys are not noticed.
    pub async fn run_background(self, shutdown: impl Future<Output = ()> + Send + 'static) {
        let (keys, usage) = (self.0.keys.clone(), Arc::clone(&self.0.usage));
        drop(self); // only these are needed while the process ends
        let shutdown = shutdown.shared();
        tokio::join!(keys.keep_current(shutdown.clone()), usage.keep_reported(shutdown));
    }

    /// Asks the core once for what [`Self::run_background`] goes on asking for, so that a gateway beside its
    /// core knows the installation before the first request.
    pub async fn ask_core_once(&self) {
        self.0.keys.poll_once().await;
    }

    pub(crate) fn into_state(self) -> Arc<GatewayState> {
        self.0
    }

    /// What the gateway counts.
    #[must_use]
    pub fn metrics(&self) -> Collectors {
        let mut collectors = self.0.metrics.collectors();
        collectors.extend(self.0.keys.metrics());
        collectors.extend(self.0.core.breaker().metrics());
        collectors.extend(self.0.usage.metrics());
        collectors
    }

    /// How ready the gateway is now.
    #[must_use]
    pub fn readiness(&self) -> GatewayReadiness {
        let is_up = self.0.keys.core_is_up() && !self.0.core.breaker().is_open();
        let core = match (self.0.keys.core_answered_once(), is_up) {
            (false, _) => PartState::Down,
            (true, false) => PartState::Degraded,
            (true, true) => PartState::Ok,
        };
        let limiter = if self.0.limiter.is_degraded() { PartState::Degraded } else { PartState::Ok };
        GatewayReadiness { core, limiter }
    }
}

/// How well a part works. The order is from good to bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PartState {
    /// As it should.
    Ok,
    /// Worse than it should, but requests are answered.
    Degraded,
    /// Not at all: requests should go to another gateway.
    Down,
}

/// `ok`, `degraded` or `down`.
impl fmt::Display for PartState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ok => "ok",
            Self::Degraded => "degraded",
            Self::Down => "down",
        })
    }
}

/// How ready the gateway is, part by part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GatewayReadiness {
    /// The core: down until it has answered once, later degraded while it does not answer, because another
    /// gateway would fare no better.
    pub core: PartState,
    /// The rate limiter: degraded while the counters that all gateways share are unreachable.
    pub limiter: PartState,
}

impl GatewayReadiness {
    /// The gateway as a whole: as its worst part.
    #[must_use]
    pub fn overall(&self) -> PartState {
        self.core.max(self.limiter)
    }
}
