//! A port: it accepts connections, and ends with them.

use std::{future::Future, io, net::SocketAddr, pin::pin, sync::Arc};

use futures_util::future::BoxFuture;
use petstore_telemetry::metrics::GaugeGuard;
#[cfg(target_os = "linux")]
use socket2::{SockFilter, SockRef};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, watch},
    task::JoinSet,
    time::{Duration, Instant, sleep, timeout},
};

use super::{Connections, Server, activity::DrainState};

/// Serves the listener's connections.
///
/// After the end of `draining` each answer announces that the connection closes (HTTP/1.1 `Connection:
/// close`, HTTP/2 GOAWAY), while new connections are still accepted. At the end of `shutdown` it accepts only
/// the connections that clients have opened before, and lets every request in flight finish. It returns when
/// the last connection is closed or the [deadline](super::ServerLimits::drain_deadline) has passed.
///
/// # Errors
/// None at present: a failed accept is logged and tried again.
pub fn serve(
    listener: TcpListener,
    server: Server,
    draining: BoxFuture<'static, ()>,
    mut shutdown: BoxFuture<'static, ()>,
) -> BoxFuture<'static, io::Result<()>> {
    // In a box, so that it is compiled with this crate.
    Box::pin(async move {
        let (drain, drained) = watch::channel(DrainState::Serving);
        let (accept_grace, drain_deadline) = (server.limits.accept_grace, server.limits.drain_deadline);
        let connections = Connections::new(server, drained);
        let mut listener = Listener { listener, last_logged: None };
        let mut port = Port { connections, accepted: None, open: JoinSet::new() };

        let is_closing = tokio::select! {
            () = port.accept_until(&mut listener, draining) => false,
            () = &mut shutdown => true,
        };
        let draining_since = Instant::now();
        drain.send_replace(DrainState::Draining);
        if !is_closing {
            port.accept_until(&mut listener, shutdown).await;
        }
        drain.send_replace(DrainState::Closing { draining_since });
        #[cfg(target_os = "linux")]
        listener.refuse_new();
        let all_closed = async {
            port.accept_rest(&mut listener, accept_grace).await;
            drop(listener); // closes it
            while port.open.join_next().await.is_some() {}
        };
        if timeout(drain_deadline, all_closed).await.is_err() {
            let connections = port.open.len();
            tracing::warn!(connections, "cut off connections that were open at the drain deadline");
            port.open.shutdown().await;
        }
        Ok(())
    })
}

/// Connections of a port.
struct Port {
    connections: Arc<Connections>,
    /// Connection that waits for a slot.
    accepted: Option<(TcpStream, SocketAddr)>,
    open: JoinSet<()>,
}

impl Port {
    /// Accepts connections until `end`. While there is no slot for one, others wait in the kernel's queue.
    async fn accept_until(&mut self, listener: &mut Listener, end: impl Future<Output = ()>) {
        let mut end = pin!(end);
        loop {
            let free = {
                let Self { connections, accepted, open } = self;
                // Not restarted when a connection closes: its wait for a slot goes on.
                let mut next = pin!(async {
                    if accepted.is_none() {
                        *accepted = Some(listener.next().await);
                    }
                    connections.slots.free().await
                });
                loop {
                    tokio::select! {
                        biased;
                        () = &mut end => return,
                        Some(closed) = open.join_next(), if !open.is_empty() => {
                            if let Err(error) = closed && error.is_panic() {
                                tracing::error!(%error, "a connection panicked");
                            }
                        }
                        free = &mut next => break free,
                    }
                }
            };
            self.begin(free);
        }
    }

    /// Accepts the connections that clients have opened or begun to open, and stops when no new one has
    /// arrived for `grace`. Each waits for a slot: connections close one after the other now.
    async fn accept_rest(&mut self, listener: &mut Listener, grace: Duration) {
        loop {
            if self.accepted.is_none() {
                let Ok(next) = timeout(grace, listener.next()).await else { return };
                self.accepted = Some(next);
            }
            let free = self.connections.slots.free().await;
            self.begin(free);
        }
    }

    /// Serves the accepted connection.
    fn begin(&mut self, free: Option<OwnedSemaphorePermit>) {
        let Some((stream, peer)) = self.accepted.take() else { return };
        let (slots, metrics) = (&self.connections.slots, &self.connections.slots.metrics);
        if self.connections.proxy_protocol && !slots.exempts(peer.ip()) {
            metrics.refused.inc();
            tracing::debug!(%peer, "closed a connection: it is not of a trusted proxy");
            return;
        }
        let Some(slot) = slots.take(free, peer.ip()) else {
            metrics.refused.inc();
            tracing::debug!(%peer, "closed a connection: its address has too many");
            return;
        };
        metrics.accepted.inc();
        let (connection, counted) = (Arc::clone(&slot.connection), (slot, GaugeGuard::new(&metrics.open)));
        let served = self.connections.serve(stream, peer, Arc::clone(&connection), counted);
        let _ = connection.task.set(self.open.spawn(served)); // it is the only one
    }
}

/// Socket that accepts connections.
struct Listener {
    listener: TcpListener,
    last_logged: Option<Instant>,
}

impl Listener {
    /// Waits for the next connection. Cancel-safe: none is lost.
    async fn next(&mut self) -> (TcpStream, SocketAddr) {
        loop {
            match self.listener.accept().await {
                Ok(accepted) => return accepted,
                Err(error) => {
                    if self.last_logged.is_none_or(|last| last.elapsed() >= Duration::from_secs(10)) {
                        tracing::warn!(%error, "could not accept a connection");
                        self.last_logged = Some(Instant::now());
                    }
                    sleep(Duration::from_millis(50)).await; // file descriptors take time to return
                }
            }
        }
    }

    /// Refuses new connections. Connections that clients have begun to open still arrive.
    ///
    /// Closing the socket resets the connections that the kernel has opened and the server has not accepted
    /// yet, although their clients may have sent requests. So the kernel drops the segments that would begin
    /// a new connection (SYN without ACK), and the rest of the queue can be emptied. A client whose segment
    /// was dropped repeats it a second later, and is refused then.
    #[cfg(target_os = "linux")]
    fn refuse_new(&self) {
        // Classic BPF. The data is a TCP segment, beginning with its header (RFC 9293 §3.1).
        let drop_syn = [
            SockFilter::new(0x30, 0, 0, 13),       // load byte 13, the flags
            SockFilter::new(0x54, 0, 0, 0x12),     // keep SYN and ACK
            SockFilter::new(0x15, 0, 1, 0x02),     // unless it is SYN alone, skip one instruction
            SockFilter::new(0x06, 0, 0, 0),        // drop it
            SockFilter::new(0x06, 0, 0, u32::MAX), // take all of it
        ];
        if let Err(error) = SockRef::from(&self.listener).attach_filter(&drop_syn) {
            tracing::debug!(%error, "could not refuse new connections before the listener closes");
        }
    }
}
