//! Sockets: accepts connections and serves HTTP on them, within bounds of number, time and memory: HTTP/1.1 in plain
//! text, and with TLS HTTP/2 or HTTP/1.1, as the client prefers (ALPN).
//!
//! Not `axum::serve`: that has no timeout for half-sent heads, and its graceful shutdown waits for ever for a
//! client that neither speaks nor leaves.

mod address_counts;
mod certificate;
mod connection;
mod conversation;
mod limits;
mod linger;
mod metrics;
mod streams;
#[cfg(test)]
mod tests;

use std::{future::Future, io, net::SocketAddr, pin::pin, sync::Arc, time::Duration};

use axum::Router;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    task::JoinSet,
    time::{sleep, timeout},
};

use self::{address_counts::AddressCounts, connection::Connections};
pub use self::{
    certificate::{Certificate, CertificateFiles, InvalidCertificate},
    limits::ServerLimits,
    metrics::ConnectionMetrics,
};

/// How long to wait after a failed accept: those come of exhausted file descriptors, which take time to return.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What carries HTTP.
#[derive(Clone, Debug)]
pub enum Transport {
    /// Bytes that everybody on the way can read.
    Plain,
    /// TLS, with this certificate, whose files are followed while the port is served.
    Tls(Certificate),
}

/// Serves `app` on the listener's connections until `shutdown`. Then it accepts no more, lets every request that
/// is under way finish, and returns when the last connection is closed or [`ServerLimits::drain_deadline`] has
/// passed, whatever clients do.
///
/// A request carries the address of its peer as an extension, `axum::extract::ConnectInfo<SocketAddr>`.
///
/// # Errors
/// None at present: a failed accept is logged and tried again.
pub async fn serve(
    listener: TcpListener,
    transport: Transport,
    app: Router,
    limits: ServerLimits,
    metrics: ConnectionMetrics,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let (stop, stopping) = watch::channel(());
    let slots = Arc::new(Semaphore::new(limits.max_connections.min(Semaphore::MAX_PERMITS)));
    let addresses = AddressCounts::new(limits.max_connections_per_address);
    let mut watching = JoinSet::new(); // ends with this function
    if let Transport::Tls(certificate) = &transport {
        watching.spawn(certificate.clone().keep_current());
    }
    let connections = Connections::new(app, transport, limits, stopping);
    let drain_deadline = connections.limits().drain_deadline;

    let mut open = JoinSet::new();
    let mut shutdown = pin!(shutdown);
    loop {
        tokio::select! {
            () = &mut shutdown => break,
            Some(closed) = open.join_next(), if !open.is_empty() => {
                if let Err(error) = closed {
                    tracing::error!(%error, "a connection panicked");
                }
            }
            (slot, stream, peer) = accept(&listener, &slots) => {
                let Some(entry) = addresses.enter(peer.ip()) else {
                    metrics.refused();
                    tracing::debug!(%peer, "closed a connection: its address has too many");
                    continue;
                };
                let connection = metrics.accepted();
                let serving = connections.serve(stream, peer);
                open.spawn(async move {
                    serving.await;
                    drop((slot, entry, connection)); // counted until here
                });
            }
        }
    }

    drop(listener);
    drop(stop); // tells every connection
    let all_closed = async { while open.join_next().await.is_some() {} };
    if timeout(drain_deadline, all_closed).await.is_err() {
        tracing::warn!(connections = open.len(), "cut off connections that were open at the drain deadline");
        open.shutdown().await;
    }
    Ok(())
}

/// The next connection, once there is a slot for it: while there is none, connections wait in the kernel's queue.
async fn accept(
    listener: &TcpListener,
    slots: &Arc<Semaphore>,
) -> (Option<OwnedSemaphorePermit>, TcpStream, SocketAddr) {
    let slot = Arc::clone(slots).acquire_owned().await.ok(); // the semaphore is never closed
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => return (slot, stream, peer),
            Err(error) => {
                tracing::warn!(%error, "could not accept a connection");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}
