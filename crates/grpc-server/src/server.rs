//! The gRPC server on a socket, with services for tools such as grpcurl: health, which follows a probe
//! (`grpc.health.v1.Health`), and [reflection](crate::reflection).

use std::{
    convert::Infallible,
    future::{pending, ready},
    io, iter,
    pin::pin,
    sync::Arc,
    time::Duration,
};

use futures_util::{
    FutureExt, Stream, StreamExt,
    future::BoxFuture,
    stream::{self, BoxStream},
};
use petstore_telemetry::logs::with_causes;
use tokio::{
    sync::{oneshot, watch},
    time,
};
use tonic::{Code, Request, Response, Status, body::Body, service::Routes};
use tonic_health::{
    ServingStatus,
    pb::{
        HealthCheckRequest, HealthCheckResponse, health_check_response,
        health_server::{Health as HealthRpc, HealthServer},
    },
    server::{HealthReporter, HealthService},
};
use tower::{BoxError, Service};

use crate::{
    access::Security,
    call::Calls,
    connection::{self, Connection, Listener},
    receive,
    reflection::{public, with_reflection},
};

/// Maximum number of calls in flight on one connection: room for a gateway's reads and writes, 128 each, as
/// batches of one call.
const MAX_STREAMS: u32 = 256;

/// Limits of a server that its process chooses.
#[derive(Clone, Copy, Debug)]
pub struct GrpcServerLimits {
    /// Maximum number of open connections. A gateway holds two, another client a few. One more takes the
    /// place of the oldest connection that has made no call with the required credentials so far. If there
    /// is none, it waits. From one address (IPv6: one /64) there are at most half as many of these.
    pub connections: usize,
    /// Mean time after which a connection gets GOAWAY. Calls in flight on it finish, and its client connects
    /// again, which may lead to another core. The time of each connection is random, from three to five
    /// quarters of this, so that clients do not return all at once, nor always in the same order.
    pub connection_age: Duration,
    /// Time for calls in flight to end at shutdown before they are cut off.
    pub drain_deadline: Duration,
}

/// Returns the reason if calls cannot be answered. It is asked once a second, and must end by itself.
pub type Probe = Arc<dyn Fn() -> BoxFuture<'static, Result<(), BoxError>> + Send + Sync>;

/// The services of a server, and what it needs to serve them.
pub struct Served {
    /// The services.
    pub routes: Routes,
    /// Their bounds.
    pub calls: Calls,
    /// Encoded `FileDescriptorSet` of the services, whose health is reported, in addition to that of the
    /// server as a whole, and which reflection shows.
    pub descriptors: &'static [u8],
    /// Beginning of the packages of other services.
    pub hidden: &'static str,
    /// Health of the services.
    pub probe: Probe,
}

/// Serves every service, with health and reflection, to callers that `security` admits, until `shutdown`.
/// Then it accepts no more connections and sends GOAWAY to clients. The calls in flight have
/// [`GrpcServerLimits::drain_deadline`] to end before they are cut off.
///
/// # Errors
///
/// If the transport fails.
pub fn serve(
    listener: Listener,
    security: Security,
    served: Served,
    shutdown: BoxFuture<'static, ()>,
    limits: GrpcServerLimits,
) -> BoxFuture<'static, io::Result<()>> {
    // Boxed so that it is compiled with this crate.
    Box::pin(async move {
        let calls = served.calls.clone();
        let (routes, health) = add_tools(served).await;
        let (draining, drain_begins) = oneshot::channel();
        let shutdown = async move {
            health.follow(shutdown).await;
            let _ = draining.send(()); // there is no receiver if the server has failed
        };

        let metrics = calls.connections.clone();
        let (connections, close_all) =
            connection::accept(listener, limits.connections, calls.limits, metrics, shutdown);
        let service = receive::guarded(routes.prepare(), security.clone(), calls);
        let mut serving = pin!(serve_each(connections, service, security, limits.connection_age));

        let drained = async {
            if drain_begins.await.is_ok() {
                time::sleep(limits.drain_deadline).await;
            } else {
                pending::<()>().await; // the connections have ended already
            }
        };
        tokio::select! {
            () = &mut serving => Ok(()),
            () = drained => {
                tracing::warn!("cut off calls that were in flight at the drain deadline");
                drop(close_all);
                // A connection that does not end soon is abandoned.
                let _ = time::timeout(Duration::from_secs(1), serving).await;
                Ok(())
            }
        }
    })
}

/// Serves each connection, with the certificate at its begin. At the end of `connections` the clients get
/// GOAWAY, and the calls in flight are answered.
async fn serve_each<S>(
    connections: impl Stream<Item = Connection>,
    service: S,
    security: Security,
    connection_age: Duration,
) where
    S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible, Future: Send>
        + Clone
        + Send
        + 'static,
{
    let drain = watch::Sender::new(());
    let mut connections = pin!(connections);
    while let Some(mut connection) = connections.next().await {
        let (open, mut drained, mut drains) = (drain.subscribe(), drain.subscribe(), drain.subscribe());
        let closed = connection.closed();
        connection.cut_if_silent(async move { drop(drains.changed().await) });
        let end = async move {
            tokio::select! {
                _ = drained.changed() => {}
                () = closed => {}
            }
        };
        // The end comes after the connection in this stream, so that one accepted last is served, too.
        let ends = end.into_stream().filter_map(|()| ready(None));
        let incoming = stream::once(ready(Ok::<_, io::Error>(connection))).chain(ends);
        let serving = security
            .server()
            .max_connection_age(connection_age.mul_f64(rand::random_range(0.75..=1.25)))
            .max_concurrent_streams(MAX_STREAMS)
            .concurrency_limit_per_connection(MAX_STREAMS as usize)
            .load_shed(true)
            .http2_max_header_list_size(8 * 1024)
            // Streams that a peer may open and reset before it is treated as an attacker
            .http2_max_pending_accept_reset_streams(Some(20))
            // Frames of streams already reset by the server before the peer is treated as an attacker. A
            // caller whose calls were refused still sends what is in flight, up to the connection's window:
            // 64 frames of 16 KiB.
            .http2_max_local_error_reset_streams(Some(1_024))
            .http2_keepalive_interval(Some(Duration::from_secs(10)))
            .http2_keepalive_timeout(Some(Duration::from_secs(5)))
            .serve_with_incoming_shutdown(service.clone(), incoming, pending());
        tokio::spawn(async move {
            if let Err(error) = serving.await {
                tracing::debug!(%error, "a connection failed");
            }
            drop(open);
        });
    }
    drain.send_replace(());
    drain.closed().await;
}

/// Reporter of the health of the services.
struct HealthReport {
    probe: Probe,
    /// Names of the services. The empty one stands for the server as a whole.
    services: Vec<String>,
    reporter: HealthReporter,
    last: ServingStatus,
}

/// Adds health, with its initial status, and reflection.
async fn add_tools(served: Served) -> (Routes, HealthReport) {
    let Served { routes, calls, descriptors, hidden, probe } = served;
    let (encoded, public) = public(descriptors, hidden);
    let services = public
        .file
        .iter()
        .flat_map(|file| file.service.iter().map(|service| format!("{}.{}", file.package(), service.name())));
    let services = iter::once(String::new()).chain(services).collect();
    let reporter = HealthReporter::new();
    let service = HealthServer::new(PortHealth(HealthService::from_health_reporter(reporter.clone())));
    let mut health = HealthReport { probe, services, reporter, last: ServingStatus::Unknown };
    health.update().await;
    let size = calls.limits.tool_message;
    let routes = routes.add_service(service.max_decoding_message_size(size));
    (with_reflection(routes, &encoded, size), health)
}

impl HealthReport {
    /// Asks the probe every second until `shutdown`, and reports changes of its status. Then reports that
    /// the server is going away, and ends the streams of clients that watch, which would hold up the drain.
    async fn follow(mut self, shutdown: impl Future<Output = ()>) {
        let watch = async {
            loop {
                time::sleep(Duration::from_secs(1)).await;
                self.update().await;
            }
        };
        tokio::select! {
            () = watch => {}
            () = shutdown => {}
        }
        self.report(ServingStatus::NotServing).await;
        for service in &self.services {
            self.reporter.clear_service_status(service).await;
        }
    }

    /// Asks the probe, and reports and logs its status if that has changed.
    async fn update(&mut self) {
        let answer = (self.probe)().await;
        let status = if answer.is_ok() { ServingStatus::Serving } else { ServingStatus::NotServing };
        if status != self.last {
            match answer {
                Err(error) => tracing::error!(error = with_causes(&*error), "the store does not answer"),
                Ok(()) if self.last == ServingStatus::Unknown => {} // the first answer is no news
                Ok(()) => tracing::info!("the store answers again"),
            }
            self.report(status).await;
            self.last = status;
        }
    }

    async fn report(&self, status: ServingStatus) {
        for service in &self.services {
            self.reporter.set_service_status(service, status).await;
        }
    }
}

/// Health of the services, as `grpc.health.v1` requires it: a watcher of an unknown service learns that it is
/// unknown, and stays. tonic's own service refuses the call.
struct PortHealth(HealthService);

#[tonic::async_trait]
impl HealthRpc for PortHealth {
    type WatchStream = BoxStream<'static, Result<HealthCheckResponse, Status>>;

    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        self.0.check(request).await
    }

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        match self.0.watch(request).await {
            Err(status) if status.code() == Code::NotFound => {
                // No service is added later. The stream ends with those of the server as a whole, so it does
                // not hold up the drain.
                let server = self.0.watch(Request::new(HealthCheckRequest::default())).await?.into_inner();
                let mut unknown = HealthCheckResponse::default();
                unknown.set_status(health_check_response::ServingStatus::ServiceUnknown);
                let until_end = server.filter_map(async |_| None);
                Ok(Response::new(stream::iter([Ok(unknown)]).chain(until_end).boxed()))
            }
            watched => Ok(watched?.map(StreamExt::boxed)),
        }
    }
}
