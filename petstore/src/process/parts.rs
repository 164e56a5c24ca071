//! Parts of a process.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use petstore_clock::Clock;
use petstore_core::{
    Core, DatabaseUrl,
    grpc::{self, Security},
    store::{OpenOptions, Store},
};
use petstore_gateway::{
    Gateway, RestApp,
    core_client::CoreTransport,
    rate_limit::{
        InProcessLimiter, RateLimiter, RedisLimiter, ResilienceSettings, ResilientLimiter, redis_metrics,
    },
    server::{self, ConnectionMetrics, ConnectionSlots, Server, ServerLimits, Transport},
};
use petstore_telemetry::traces::{Exporter, ExporterSettings, Traces};
use tokio::task::spawn_blocking;

use super::{
    Process, StartError, admin,
    core_transport::ReplaceableTransport,
    lifecycle::Phase,
    listener::{Bound, BoundGrpc, BoundRest, RestAddrs},
    store_disk,
};
use crate::settings::{
    CoreAddressSettings, EdgeSettings, GrpcAddr, GrpcSettings, InvalidSetting, ProcessSettings,
};

impl Process {
    /// Starts to trace requests under this service name, if the settings require it.
    pub(crate) fn trace(
        &mut self,
        service: &'static str,
        settings: &ProcessSettings,
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

    /// Serves the admin port, from before the process is ready until its end.
    pub(crate) fn serve_admin(&mut self, port: Bound) -> SocketAddr {
        let connections = self.connection_limits.admin;
        let at_once = connections - connections / 4; // a quarter is for health
        let (health, metrics, names) = (self.health.clone(), self.metrics.clone(), self.admin_hosts.clone());
        let app = admin::router(health, metrics, names, at_once);
        let admin = Server {
            transport: Transport::Plain,
            app: Arc::new(app),
            // The admin port closes last, so everything that it reports has ended.
            limits: ServerLimits { accept_grace: Duration::ZERO, ..self.limits() },
            slots: ConnectionSlots::new(connections, connections).reclaiming(),
            metrics: ConnectionMetrics::default(), // not shown
        };
        let draining = self.draining();
        self.add("the admin port", Phase::ClosingAdmin, |end| {
            server::serve(port.listener, admin, draining, end)
        });
        port.addr
    }

    /// Serves REST, and runs the gateway's background work.
    pub(crate) fn serve_rest(
        &mut self,
        ports: BoundRest,
        settings: &EdgeSettings,
        gateway: Gateway,
    ) -> RestAddrs {
        let addrs = ports.addrs();
        let metrics = ConnectionMetrics::default();
        self.metrics.add(metrics.collectors());
        let certificate = ports.https.as_ref().map(|(_, certificate)| certificate);
        self.metrics.add(server::certificate_metrics(certificate));
        let server = Server {
            transport: Transport::Plain,
            app: Arc::new(RestApp::from(gateway.clone())),
            limits: ServerLimits { idle: settings.keep_alive_timeout, ..self.limits() },
            slots: ConnectionSlots::new(self.connection_limits.rest, self.connection_limits.rest_per_address)
                .exempting(settings.trusted_proxies()),
            metrics,
        };
        if let Some((_, certificate)) = &ports.https {
            let certificate = certificate.clone();
            self.reloads.add("the HTTPS certificate", move || {
                certificate.reload().map_err(|error| error.to_string())
            });
        }
        let http = ports.http.map(|port| ("the REST port", port, Transport::Plain));
        let https =
            ports.https.map(|(port, certificate)| ("the HTTPS port", port, Transport::Tls(certificate)));
        for (name, port, transport) in http.into_iter().chain(https) {
            let (server, draining) = (Server { transport, ..server.clone() }, self.draining());
            self.add(name, Phase::ClosingHttp, |end| server::serve(port.listener, server, draining, end));
        }
        self.sources.gateway = Some(gateway.clone());
        self.metrics.add(gateway.metrics());
        self.add("the gateway's background work", Phase::ClosingBackground, async move |end| {
            gateway.run_background(end).await;
            Ok(())
        });
        addrs
    }

    /// Returns the rate limiter: in Redis if there is one, otherwise in this process. Redis has been probed
    /// when this returns, which takes a second at most.
    pub(crate) async fn rate_limiter(
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

    /// Returns the transport to the core, which SIGHUP replaces by one with a new token and new certificates.
    pub(crate) fn reloadable(
        &mut self,
        transport: CoreTransport,
        settings: &CoreAddressSettings,
    ) -> CoreTransport {
        let (transport, settings) = (ReplaceableTransport::new(transport), settings.clone());
        let replaced = transport.clone();
        if settings.token.service_token_file.is_some() || settings.core.core_ca.is_some() {
            self.reloads.add("the token or certificate for the core", move || {
                replaced.replace(settings.connect().map_err(|error| error.to_string())?);
                Ok(())
            });
        }
        let transport = CoreTransport::new(transport);
        self.sources.core = Some(transport.clone());
        transport
    }

    /// Serves gRPC, and runs the core's background work.
    pub(crate) fn serve_grpc(
        &mut self,
        port: BoundGrpc,
        settings: &GrpcSettings,
        security: Security,
        core: Core,
    ) -> GrpcAddr {
        if let Some(required) = security.token() {
            let settings = settings.token.clone();
            self.reloads.add("the token of gRPC callers", move || {
                if let Some(token) = settings.token().map_err(|error| error.to_string())? {
                    required.replace(token);
                }
                Ok(())
            });
        }
        self.sources.core = Some(CoreTransport::new(grpc::in_memory(&core)));
        let background = core.clone();
        self.add("the core's background work", Phase::ClosingBackground, async move |end| {
            background.run_background(end).await;
            Ok(())
        });
        let BoundGrpc { listener, addr, file } = port;
        let limits = grpc::GrpcServerLimits {
            connections: self.connection_limits.grpc,
            drain_deadline: self.drain_deadline,
        };
        self.metrics.add(core.metrics());
        self.add("the gRPC port", Phase::ClosingGrpc, async move |end| {
            let ended = grpc::serve(listener, security, core, end, limits).await;
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
        self.metrics.add(store_disk::metrics(url));
        Ok(store)
    }

    /// Completes when connections have to end after their current request.
    fn draining(&self) -> impl Future<Output = ()> + Send + use<> {
        self.lifecycle.watch().reached(Phase::Draining)
    }

    fn limits(&self) -> ServerLimits {
        ServerLimits { drain_deadline: self.drain_deadline, ..ServerLimits::default() }
    }
}
