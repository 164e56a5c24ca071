//! The parts that a process can have.

use std::{io, net::SocketAddr, sync::Arc};

use petstore_clock::Clock;
use petstore_core::{
    Core, DatabaseUrl,
    grpc::{self, Security},
    store::{OpenOptions, Store},
};
use petstore_gateway::{
    Gateway,
    limit::{
        InProcessLimiter, RateLimiter, RedisLimiter, ResilienceSettings, ResilientLimiter, redis_metrics,
    },
    router,
    server::{self, ConnectionMetrics, ServerLimits, Transport},
};
use petstore_traces::{Exporter, ExporterSettings, Traces};
use tokio::task::spawn_blocking;

use super::Process;
use crate::{
    admin,
    error::StartError,
    lifecycle::Phase,
    listener::{Bound, BoundGrpc, BoundRest, RestAddrs},
    settings::{GrpcAddr, InvalidSetting, TraceSettings},
};

impl Process {
    /// Traces requests, if that is wanted, under the name of this service.
    pub(crate) fn trace(
        &mut self,
        service: &'static str,
        settings: &TraceSettings,
    ) -> Result<Traces, InvalidSetting> {
        let Some(endpoint) = settings.otlp_endpoint.clone() else { return Ok(Traces::off()) };
        let version = env!("CARGO_PKG_VERSION");
        let settings = ExporterSettings { endpoint, ratio: settings.trace_ratio, service, version };
        let exporter = Exporter::start(settings, &self.spans)
            .map_err(|error| InvalidSetting::new("--otlp-endpoint", error.to_string()))?;
        let traces = exporter.traces();
        self.traces = Some(exporter);
        Ok(traces)
    }

    /// Serves the admin port, from before the process is ready until it is over.
    pub(crate) fn serve_admin(&mut self, port: Bound) -> SocketAddr {
        let app = admin::router(self.health.clone(), self.metrics.clone());
        let limits = self.limits();
        let metrics = ConnectionMetrics::default(); // of no interest
        self.add("the admin port", Phase::ClosingAdmin, |end| {
            server::serve(port.listener, Transport::Plain, app, limits, metrics, end)
        });
        port.addr
    }

    /// Serves REST, and keeps what the gateway knows of keys current.
    pub(crate) fn serve_rest(&mut self, ports: BoundRest, gateway: Gateway) -> RestAddrs {
        let addrs = ports.addrs();
        let app = router(gateway.clone());
        let metrics = ConnectionMetrics::default();
        self.metrics.add(metrics.collectors());
        let http = ports.http.map(|port| ("the REST port", port, Transport::Plain));
        let https =
            ports.https.map(|(port, certificate)| ("the HTTPS port", port, Transport::Tls(certificate)));
        for (name, port, transport) in http.into_iter().chain(https) {
            let (app, limits, metrics) = (app.clone(), self.limits(), metrics.clone());
            self.add(name, Phase::ClosingHttp, |end| {
                server::serve(port.listener, transport, app, limits, metrics, end)
            });
        }
        self.sources.gateway = Some(gateway.clone());
        self.metrics.add(gateway.metrics());
        self.add("the gateway's background work", Phase::ClosingBackground, async move |end| {
            gateway.run_background(end).await;
            Ok(())
        });
        addrs
    }

    /// Counts requests in Redis, if there is one, else in this process. Redis has been tried when this returns: it
    /// takes a second at most.
    pub(crate) async fn count_requests(
        &mut self,
        redis: Option<RedisLimiter>,
        resilience: ResilienceSettings,
        clock: &Clock,
    ) -> Arc<dyn RateLimiter> {
        let Some(redis) = redis else {
            self.metrics.add(redis_metrics(None));
            return Arc::new(InProcessLimiter::new(clock.clone()));
        };
        let limiter = Arc::new(ResilientLimiter::start(redis, resilience, clock.clone()).await);
        self.metrics.add(redis_metrics(Some(&limiter)));
        let watched = Arc::clone(&limiter);
        self.add("the watch on Redis", Phase::ClosingBackground, async move |end| {
            watched.watch(end).await;
            Ok(())
        });
        limiter
    }

    /// Serves gRPC, and does what the core has to do besides.
    pub(crate) fn serve_grpc(&mut self, port: BoundGrpc, security: Security, core: Core) -> GrpcAddr {
        let background = core.clone();
        self.add("the core's background work", Phase::ClosingBackground, async move |end| {
            background.run_background(end).await;
            Ok(())
        });
        let BoundGrpc { listener, addr, file } = port;
        let deadline = self.drain_deadline;
        self.metrics.add(core.metrics());
        self.add("the gRPC port", Phase::ClosingGrpc, async move |end| {
            let ended = grpc::serve(listener, security, core, end, deadline).await;
            let removed = spawn_blocking(|| drop(file)).await;
            ended.and(removed.map_err(io::Error::other))
        });
        addr
    }

    /// Opens the store, with its replicas.
    pub(crate) async fn open_store(
        &mut self,
        url: &DatabaseUrl,
        replicas: &[DatabaseUrl],
        options: OpenOptions,
    ) -> Result<Store, StartError> {
        let store = Store::open(url, options).await?.with_replicas(url, replicas)?;
        self.sources.store = Some(store.clone());
        Ok(store)
    }

    fn limits(&self) -> ServerLimits {
        ServerLimits { drain_deadline: self.drain_deadline, ..ServerLimits::default() }
    }
}
