//! The gRPC server on a socket.

use std::{io, pin::pin, time::Duration};

use tokio::{sync::oneshot, task::JoinSet, time};
use tonic::transport::Server;

use super::{Listener, Security, connection, health, receive::ReceiveBounds, reflection, services};
use crate::Core;

/// Calls at once on one connection: room for a gateway's reads and writes, 128 each, as batches of one call.
const MAX_STREAMS: u32 = 256;
/// The header fields of a call, in bytes.
const MAX_HEADERS: u32 = 8 * 1024;
/// Streams that a peer may open and reset before it is taken for an attacker.
const MAX_PENDING_RESETS: usize = 20;
/// Frames of streams that we have reset before the peer is taken for an attacker. A caller whose calls were
/// refused sends what is on its way, up to the connection's window: 64 frames of 16 KiB at a time.
const MAX_ERROR_RESETS: usize = 1_024;
const PING_INTERVAL: Duration = Duration::from_secs(10);
const PING_TIMEOUT: Duration = Duration::from_secs(5);
/// How long connections that were cut have to end.
const CUT_GRACE: Duration = Duration::from_secs(1);

/// The bounds of a server that its process chooses.
#[derive(Clone, Copy, Debug)]
pub struct GrpcServerLimits {
    /// Connections at once; more wait until one closes. Gateways hold two each; others call over a few.
    pub connections: usize,
    /// How long the calls under way may take at the end before they are cut off.
    pub drain_deadline: Duration,
}

/// Serves every service, with health and reflection, to those whom `security` lets in, until `shutdown`. Then
/// no connection is accepted any more, callers are told that theirs ends (GOAWAY), and the calls under way
/// have [`GrpcServerLimits::drain_deadline`] to end before they are cut off.
///
/// # Errors
///
/// If the transport fails.
pub async fn serve(
    listener: Listener,
    security: Security,
    core: Core,
    shutdown: impl Future<Output = ()> + Send + 'static,
    limits: GrpcServerLimits,
) -> io::Result<()> {
    let health = health::check(&core.store).await;
    let (health_service, reporter) = health::service(health);
    let routes = reflection::add_to(services(&core).add_service(health_service));
    let mut watching = JoinSet::new(); // ends with this function
    watching.spawn(health::watch(core.store.clone(), reporter.clone(), health));

    let (draining, drain_begins) = oneshot::channel();
    let shutdown = async move {
        shutdown.await;
        watching.shutdown().await;
        health::mark_not_serving(reporter).await;
        let _ = draining.send(()); // nobody listens if the server has failed
    };

    let (connections, close_all) = connection::accept(listener, limits.connections);
    let (tls, access) = security.into_parts();
    let mut server = Server::builder();
    if let Some(tls) = tls {
        server = server.tls_config(tls).map_err(io::Error::other)?;
    }
    let serving = server
        .max_concurrent_streams(MAX_STREAMS)
        .concurrency_limit_per_connection(MAX_STREAMS as usize)
        .load_shed(true)
        .http2_max_header_list_size(MAX_HEADERS)
        .http2_max_pending_accept_reset_streams(Some(MAX_PENDING_RESETS))
        .http2_max_local_error_reset_streams(Some(MAX_ERROR_RESETS))
        .http2_keepalive_interval(Some(PING_INTERVAL))
        .http2_keepalive_timeout(Some(PING_TIMEOUT))
        .layer(access)
        .layer(ReceiveBounds::new(core.calls.clone()))
        .add_routes(routes)
        .serve_with_incoming_shutdown(connections, shutdown);
    let mut serving = pin!(serving);

    let drained = async {
        if drain_begins.await.is_ok() {
            time::sleep(limits.drain_deadline).await;
        } else {
            std::future::pending::<()>().await; // the server has failed: its own result says how
        }
    };
    tokio::select! {
        result = &mut serving => result.map_err(io::Error::other),
        () = drained => {
            tracing::warn!("calls were still under way at the end of the drain, and were cut off");
            drop(close_all);
            let _ = time::timeout(CUT_GRACE, serving).await; // a connection that will not end is left behind
            Ok(())
        }
    }
}
