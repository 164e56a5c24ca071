//! State that every request shares, and the readiness of the gateway.

use std::{net::IpAddr, sync::Arc};

use futures_util::{FutureExt, future::BoxFuture};
use http::{HeaderMap, HeaderValue};
use petstore_caller::{api_key::Environment, client_address::TrustedProxies};
use petstore_clock::Clock;
use petstore_core_client::{CoreClient, CoreServices, CoreTransport, TracedTransport};
use petstore_key_cache::KeyResolver;
use petstore_proto::{internal::v1::ListChangesResponse, rpc::INTERNAL_METHODS};
use petstore_rate_limit::{InProcessLimiter, RateLimiter, ResilientLimiter};
use petstore_telemetry::{
    metrics::Collectors,
    parts::{Fault, PartState},
    traces::Traces,
};

use crate::{
    core_calls::CoreCalls, cors::CorsOrigin, deprecation::Brownouts, early_reads::AccountReads,
    metrics::Metrics, request::request_id, usage_counter::UsageCounter,
};

/// Options of a gateway that an operator chooses.
pub struct GatewayOptions {
    /// Environment whose keys are accepted.
    pub environment: Environment,
    /// Peers whose `X-Forwarded-For` is trusted.
    pub trusted_proxies: TrustedProxies,
    /// Origins whose web pages may read answers (CORS); none by default.
    pub cors_origins: Vec<CorsOrigin>,
    /// `true` if keys that ignore 429 are banned, and bans hold.
    pub bans: bool,
    /// Trace recorder of requests.
    pub traces: Traces,
}

#[cfg(test)]
impl GatewayOptions {
    /// Returns the options of a gateway for keys of that environment, whose clients call it without proxies
    /// and not from web pages. Bans hold, and requests are not traced.
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

/// State of the gateway. Clones share it.
#[derive(Clone)]
pub struct Gateway(Arc<GatewayState>);

/// State that handlers and layers see.
pub(crate) struct GatewayState {
    pub(crate) settings: GatewayOptions,
    pub(crate) clock: Clock,
    pub(crate) limiter: Arc<dyn RateLimiter>,
    /// The limiter, if it counts in Redis: its installation and state.
    pub(crate) redis: Option<Arc<ResilientLimiter>>,
    pub(crate) keys: KeyResolver,
    pub(crate) brownouts: Arc<Brownouts>,
    pub(crate) early_reads: AccountReads,
    pub(crate) core: CoreCalls,
    pub(crate) metrics: Metrics,
    pub(crate) usage: Arc<UsageCounter>,
}

impl Gateway {
    /// Creates a gateway in front of `core` that counts in Redis, or in this process. If the core is
    /// `in_process`, frequent calls are made directly, and only the others go over the transport.
    pub fn new(
        settings: GatewayOptions,
        core: CoreTransport,
        in_process: Option<CoreServices>,
        redis: Option<Arc<ResilientLimiter>>,
        clock: Clock,
    ) -> Self {
        let core = CoreClient::new(core, in_process);
        let metrics = Metrics::default();
        let limiter: Arc<dyn RateLimiter> = match redis.clone() {
            Some(redis) => redis,
            None => Arc::new(InProcessLimiter::new(clock.clone())),
        };
        let (named, brownouts) = (redis.clone(), Arc::<Brownouts>::default());
        let calendar = Arc::clone(&brownouts);
        let on_changes = move |answer: &ListChangesResponse| {
            if let Some(redis) = &named {
                redis.set_installation(&answer.installation);
            }
            calendar.learn(answer);
        };
        Self(Arc::new(GatewayState {
            settings,
            keys: KeyResolver::new(
                core.transport.clone(),
                INTERNAL_METHODS,
                on_changes,
                clock.clone(),
                "petstore_",
            ),
            brownouts,
            early_reads: AccountReads::default(),
            limiter,
            redis,
            usage: Arc::new(UsageCounter::new(core.transport.clone(), clock.clone())),
            core: CoreCalls { client: core },
            clock,
            metrics,
        }))
    }

    /// Keeps the cache of keys up to date and reports usage, until `shutdown`, and then reports the remaining
    /// usage. Without it, revoked keys are not noticed.
    pub fn run_background(self, shutdown: BoxFuture<'static, ()>) -> BoxFuture<'static, ()> {
        let (keys, usage) = (self.0.keys.clone(), Arc::clone(&self.0.usage));
        drop(self); // only these are needed while the process ends
        let shutdown = shutdown.shared();
        // In a box, so that it is compiled with this crate.
        Box::pin(async move {
            tokio::join!(keys.keep_current(shutdown.clone()), usage.keep_reported(shutdown));
        })
    }

    /// Asks the core once for the information that [`Self::run_background`] keeps up to date. A gateway
    /// beside its core then knows the installation before the first request.
    pub fn ask_core_once(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.0.keys.poll_once())
    }

    pub(crate) const fn state(&self) -> &Arc<GatewayState> {
        &self.0
    }

    /// Returns the metrics of the gateway.
    pub fn metrics(&self) -> Collectors {
        let mut collectors = self.0.metrics.collectors();
        collectors.extend(self.0.keys.metrics());
        collectors.extend(self.0.core.client.transport.breaker.metrics());
        collectors.extend(self.0.usage.metrics());
        collectors
    }

    /// Returns the current faults of the core and of the rate limiter, as the gateway sees them. The limiter
    /// is degraded while the counters that all gateways share are unreachable.
    pub fn faults(&self) -> (Option<Fault>, Option<Fault>) {
        let limiter = self.0.redis.as_ref().and_then(|redis| redis.fault());
        (self.0.keys.core_fault(), limiter.map(|cause| Fault::new(PartState::Degraded, cause)))
    }

    /// Returns the name of a request in the logs: the sender's own if that is fit for a log, otherwise a new
    /// one.
    pub fn name_request(&self, headers: &HeaderMap) -> HeaderValue {
        request_id(headers, &self.0.clock).as_header().clone()
    }

    /// Returns the address of the client of a request that came from `peer`, which may be a trusted proxy.
    pub fn client_of(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        self.0.settings.trusted_proxies.client_ip(peer, headers)
    }

    /// Returns the transport of calls to the core that are not made for a client.
    pub fn core(&self) -> &TracedTransport {
        &self.0.core.client.transport
    }
}
