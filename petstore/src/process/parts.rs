//! Parts of a process.

use std::{io, path::Path, sync::Arc, time::Duration};

use futures_util::FutureExt;
use parking_lot::RwLock;
use petstore_admin_web::docs_page;
use petstore_clock::Clock;
use petstore_command_line::output_file::folder_of;
use petstore_core::{Core, server, store::Store};
use petstore_core_client::CoreTransport;
use petstore_database::{DatabaseUrl, OpenOptions};
use petstore_gateway::{Gateway, RestApp, docs};
use petstore_grpc_server::{GrpcServerLimits, Security};
use petstore_http_server::{App, ConnectionSlots, Server, ServerLimits, tls};
use petstore_rate_limit::{RedisLimiter, ResilientLimiter, redis_metrics};
use petstore_settings::{
    CoreAddressSettings, EdgeSettings, GrpcSettings, LimiterSettings, StoreSettings, settings_file,
};
use petstore_telemetry::metrics::{Collectors, IntGauge, IntGaugeVec, Sampled, gauge, gauges};
use rustix::fs::{StatVfs, statvfs};
use tokio::{runtime::Handle, task::spawn_blocking};
use tonic::service::Routes;
use tower::{ServiceExt, service_fn};

use super::{
    METRICS, Phase, Process, ProcessError, admin,
    listener::{BoundGrpc, HttpPorts},
};

impl Process {
    /// Serves the admin port, from before the process is ready until its end.
    pub(super) fn serve_admin(&mut self, ports: HttpPorts) {
        let connections = self.connection_limits.admin;
        let at_once = connections - connections / 4; // a quarter is for health
        let settings = self.settings.clone();
        let (health, metrics, names) =
            (self.health.clone(), self.metrics.clone(), settings.admin_host.clone());
        let app = Arc::new(admin::router(health, metrics, names, at_once));
        let server = Server {
            certificate: None,
            app: Arc::clone(&app) as _,
            // The admin port closes last, so everything that it reports has ended.
            limits: ServerLimits { accept_grace: Duration::ZERO, ..self.limits() },
            slots: ConnectionSlots::new(connections, connections), // its metrics are not shown
            proxy_protocol: false,
            hsts: self.settings.hsts,
        };
        self.addresses.admin_https = ports.https.as_ref().map(|((_, addr), _)| *addr);
        let certificate = ports.https.as_ref().map(|(_, certificate)| certificate.clone());
        self.metrics.add(petstore_http_server::certificate_metrics("petstore_admin_", certificate.as_ref()));
        if let Some(in_use) = certificate {
            let files: Vec<_> = settings.files().cloned().collect();
            self.reloads.add("the HTTPS certificate of the admin port", files, move || {
                settings.admin_certificate()?.inspect(|certificate| in_use.replace(certificate));
                Ok(())
            });
        }
        let names = ["the admin port", "the admin port over HTTPS"];
        self.serve_http(names, Phase::ClosingAdmin, ports, server, app);
    }

    /// Serves REST, and runs the gateway's background work.
    pub(crate) fn serve_rest(&mut self, ports: HttpPorts, settings: &EdgeSettings, gateway: Gateway) {
        let limits = self.connection_limits;
        let slots = ConnectionSlots::new(limits.rest, limits.rest_per_address)
            .exempting(settings.trusted_proxies())
            .measured_as(METRICS);
        self.metrics.add(slots.metrics.collectors());
        let certificate = ports.https.as_ref().map(|(_, certificate)| certificate.clone());
        self.metrics.add(petstore_http_server::certificate_metrics(METRICS, certificate.as_ref()));
        if let Some(in_use) = certificate {
            let (files, settings) = (settings.files().cloned(), settings.clone());
            self.reloads.add("the HTTPS certificate", files, move || {
                settings.certificate()?.inspect(|certificate| in_use.replace(certificate));
                Ok(())
            });
        }
        let app = RestApp::new(&gateway, docs::routes(&[docs_page()]));
        let server = Server {
            certificate: None,
            app: Arc::new(app.clone()),
            limits: ServerLimits { idle: settings.keep_alive_timeout, ..self.limits() },
            slots,
            proxy_protocol: settings.proxy_protocol,
            hsts: self.settings.hsts,
        };
        self.addresses.http = ports.http.as_ref().map(|(_, addr)| *addr);
        self.addresses.https = ports.https.as_ref().map(|((_, addr), _)| *addr);
        let names = ["the REST port", "the HTTPS port"];
        self.serve_http(names, Phase::ClosingHttp, ports, server, Arc::new(app.over_https()));
        self.sources.gateway = Some(gateway.clone());
        self.metrics.add(gateway.metrics());
        self.add("the gateway's background work", Phase::ClosingBackground, |end| {
            Box::pin(gateway.run_background(end).map(Ok))
        });
    }

    /// Serves ports of HTTP under these names until the process reaches the phase.
    fn serve_http(
        &mut self,
        [http, https]: [&'static str; 2],
        ends_at: Phase,
        ports: HttpPorts,
        server: Server,
        over_https: Arc<dyn App>,
    ) {
        let plain = ports.http.map(|(port, _)| (http, port, server.clone()));
        let https = ports.https.map(|((port, _), certificate)| {
            (https, port, Server { certificate: Some(certificate), app: over_https, ..server })
        });
        for (name, port, server) in plain.into_iter().chain(https) {
            let draining = self.reached(Phase::Draining);
            self.add(name, ends_at, |end| petstore_http_server::serve(port, server, draining, end));
        }
    }

    /// Returns the rate limiter that counts in Redis, if there is one. Redis has been probed
    /// when this returns, which takes a second at most.
    pub(crate) async fn rate_limiter(
        &mut self,
        redis: Option<RedisLimiter>,
        settings: &LimiterSettings,
        clock: &Clock,
    ) -> Option<Arc<ResilientLimiter>> {
        let Some(redis) = redis else {
            self.metrics.add(redis_metrics(METRICS, None));
            if settings.gateways.get() > 1 {
                tracing::warn!("without --redis-url, each of the --gateways admits the whole limit");
            }
            return None;
        };
        let (on_failure, gateways) = (settings.on_redis_failure, settings.gateways);
        let start = ResilientLimiter::start(redis, on_failure, gateways, clock.clone(), METRICS);
        let limiter = Arc::new(Box::pin(start).await);
        self.metrics.add(redis_metrics(METRICS, Some(&limiter)));
        let watched = Arc::clone(&limiter);
        self.add("the watch on Redis", Phase::ClosingBackground, |end| Box::pin(watched.watch(end).map(Ok)));
        Some(limiter)
    }

    /// Returns the transport to the core, which is replaced when the token or a certificate changes, and on
    /// SIGHUP.
    pub(crate) fn reloadable(
        &mut self,
        transport: CoreTransport,
        settings: &CoreAddressSettings,
    ) -> CoreTransport {
        let current = Arc::new(RwLock::new(transport));
        let files: Vec<_> = settings.files().cloned().collect();
        let expiry = grpc_certificate_expiry(settings.core_cert.as_deref());
        self.metrics.add(vec![Box::new(expiry.clone())]);
        if !files.is_empty() {
            let (replaced, settings) = (Arc::clone(&current), settings.clone());
            let runtime = Handle::current();
            self.reloads.add("the token or certificate for the core", files, move || {
                let _within = runtime.enter(); // a transport has background work
                *replaced.write() = settings.connect()?;
                expiry.set(certificate_expiry(settings.core_cert.as_deref()));
                Ok(())
            });
        }
        // A call continues on the transport on which it began.
        let transport = CoreTransport::new(service_fn(move |request| {
            let transport = current.read().clone();
            transport.oneshot(request)
        }));
        self.sources.core = Some(transport.clone());
        transport
    }

    /// Serves these services over gRPC, and runs the core's background work.
    pub(crate) fn serve_grpc(
        &mut self,
        port: BoundGrpc,
        settings: &GrpcSettings,
        security: Security,
        core: Core,
        services: Routes,
    ) {
        let BoundGrpc { listener, addr, file } = port;
        if let Some(required) = security.tokens.clone() {
            let settings = settings.token.clone();
            self.reloads.add("the token of gRPC callers", settings.service_token_file.clone(), move || {
                if let Some(tokens) = settings.tokens()? {
                    *required.write() = tokens;
                }
                Ok(())
            });
        }
        let expiry = grpc_certificate_expiry(settings.tls_cert.as_deref());
        self.metrics.add(vec![Box::new(expiry.clone())]);
        if let Some(required) = security.tls.clone() {
            let (files, settings) = (settings.tls_file_names().cloned(), settings.clone());
            self.reloads.add("the certificate of the gRPC port", files, move || {
                if let Some(files) = settings.tls_files()? {
                    *required.write() = files.server()?;
                    expiry.set(certificate_expiry(settings.tls_cert.as_deref()));
                }
                Ok(())
            });
        }
        self.addresses.grpc = Some(addr);
        self.sources.core = Some(CoreTransport::new(server::in_memory(services.clone())));
        self.sources.served = Some(Arc::new(core.clone()));
        self.metrics.add(core.metrics());
        let background = core.clone();
        self.add("the core's background work", Phase::ClosingBackground, |end| {
            Box::pin(background.run_background(end).map(Ok))
        });
        let limits = GrpcServerLimits {
            connections: self.connection_limits.grpc,
            connection_age: settings.grpc_connection_age,
            drain_deadline: self.settings.drain_deadline,
        };
        self.add("the gRPC port", Phase::ClosingGrpc, |end| {
            Box::pin(async move {
                let ended = server::serve(listener, security, &core, services, end, limits).await;
                let removed = spawn_blocking(|| drop(file)).await;
                ended.and(removed.map_err(io::Error::other))
            })
        });
    }

    /// Opens the store, with its replicas.
    pub(crate) async fn open_store(
        &mut self,
        url: &DatabaseUrl,
        replicas: &[DatabaseUrl],
        settings: &StoreSettings,
    ) -> Result<Store, ProcessError> {
        let options = OpenOptions { migrate: !settings.no_migrate, quick_check: true };
        let store = Store::open(url, replicas, options).await?;
        let store = store.with_pet_cache(settings.pet_cache);
        self.addresses.store = Some(url.to_string());
        self.sources.store = Some(store.clone());
        self.metrics.add(disk_metrics(url));
        Ok(store)
    }

    fn limits(&self) -> ServerLimits {
        ServerLimits { drain_deadline: self.settings.drain_deadline, ..ServerLimits::default() }
    }
}

/// Returns the metric of the end of the certificate that is shown in gRPC calls.
fn grpc_certificate_expiry(file: Option<&Path>) -> IntGauge {
    let expiry = gauge(
        "petstore_grpc_certificate_expiry_timestamp_seconds",
        "Expiry of the certificate used in gRPC, in Unix seconds; 0 without one.",
    );
    expiry.set(certificate_expiry(file));
    expiry
}

/// Returns the end of the first certificate in a file, in Unix seconds, or 0.
fn certificate_expiry(file: Option<&Path>) -> i64 {
    let content = file.and_then(|file| settings_file(file).ok());
    content.and_then(|(pem, _)| tls::expiry(&pem)).unwrap_or_default()
}

/// Returns the metrics of the file system of a store in a file. A database server has its own.
fn disk_metrics(url: &DatabaseUrl) -> Collectors {
    let folder = url.sqlite_file().map(|file| folder_of(file).to_owned());
    let sampled = |name: &str, help: &str, blocks: fn(&StatVfs) -> u64| {
        let folder = folder.clone();
        Sampled::boxed(gauges(name, help, &[]), move |gauge: &IntGaugeVec| {
            if let Some(disk) = folder.as_ref().and_then(|folder| statvfs(folder).ok()) {
                let bytes = blocks(&disk).saturating_mul(disk.f_frsize);
                gauge.with_label_values::<&str>(&[]).set(i64::try_from(bytes).unwrap_or(i64::MAX));
            }
        })
    };
    let available = "Free bytes of the file system with SQLite's file.";
    let size = "Size of the file system with SQLite's file, in bytes.";
    vec![
        sampled("petstore_store_disk_available_bytes", available, |disk| disk.f_bavail),
        sampled("petstore_store_disk_size_bytes", size, |disk| disk.f_blocks),
    ]
}
