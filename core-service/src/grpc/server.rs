//! The gRPC server on a socket.

use std::{future::pending, io, pin::pin, time::Duration};

use futures_util::future::BoxFuture;
use tokio::{sync::oneshot, time};
use tonic::transport::Server;

use super::{Listener, Security, connection, receive, services, tools};
use crate::Core;

/// Maximum number of calls in flight on one connection: room for a gateway's reads and writes, 128 each, as
/// batches of one call.
const MAX_STREAMS: u32 = 256;

/// Limits of a server that its process chooses.
#[derive(Clone, Copy, Debug)]
pub struct GrpcServerLimits {
    /// Maximum number of open connections; more wait until one closes. A gateway holds two, another client a
    /// few.
    pub connections: usize,
    /// Time for calls in flight to end at shutdown before they are cut off.
    pub drain_deadline: Duration,
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
    mut security: Security,
    core: Core,
    shutdown: BoxFuture<'static, ()>,
    limits: GrpcServerLimits,
) -> BoxFuture<'static, io::Result<()>> {
    // Boxed so that it is compiled with this crate.
    Box::pin(async move {
        let (routes, health) = tools::add_to(services(&core), core.store.clone()).await;
        let (draining, drain_begins) = oneshot::channel();
        let shutdown = async move {
            health.follow(shutdown).await;
            let _ = draining.send(()); // there is no receiver if the server has failed
        };

        let (connections, close_all) = connection::accept(listener, limits.connections, shutdown);
        let mut server = Server::builder();
        if let Some(tls) = security.take_tls() {
            server = server.tls_config(tls).map_err(io::Error::other)?;
        }
        let service = receive::guarded(routes.prepare(), security, core.calls.clone());
        let serving = server
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
            .serve_with_incoming_shutdown(service, connections, pending()); // until there are no more
        let mut serving = pin!(serving);

        let drained = async {
            if drain_begins.await.is_ok() {
                time::sleep(limits.drain_deadline).await;
            } else {
                pending::<()>().await; // the server has failed: its own result has the cause
            }
        };
        tokio::select! {
            result = &mut serving => result.map_err(io::Error::other),
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
