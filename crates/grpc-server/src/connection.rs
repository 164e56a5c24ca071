//! Accepts connections, with limits that tonic has no setting for.

use std::{
    future::pending,
    io, mem,
    net::IpAddr,
    pin::Pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use futures_util::{
    FutureExt, Stream,
    future::{BoxFuture, select},
    stream,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, UnixListener},
    sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch},
    time,
};
use tokio_io_timeout::TimeoutStream;
use tonic::transport::server::Connected;

use crate::{capacity::Budgets, limits::Limits};

/// Listener, bound by the process that calls [`serve`](crate::serve).
#[derive(Debug)]
pub enum Listener {
    /// A TCP port.
    Tcp(TcpListener),
    /// A Unix socket.
    Unix(UnixListener),
}

/// Byte stream of a connection of either kind.
trait Socket: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Socket for S {}

impl Listener {
    /// Accepts a connection, and returns the address of its peer if it has one.
    async fn accept(&self) -> io::Result<(Box<dyn Socket>, Option<IpAddr>)> {
        match self {
            Self::Tcp(listener) => {
                let (socket, peer) = listener.accept().await?;
                socket.set_nodelay(true)?;
                Ok((Box::new(socket), Some(peer.ip().to_canonical())))
            }
            Self::Unix(listener) => Ok((Box::new(listener.accept().await?.0), None)),
        }
    }
}

/// Closes every connection of one [`accept`] when it is dropped.
pub(super) type CloseAll = watch::Sender<()>;

/// Time for which connections are accepted at shutdown. The kernel resets those that have connected and were
/// not accepted, and clients cannot know if their calls were processed.
const LAST_ACCEPTS: Duration = Duration::from_millis(10);

/// Accepts connections until `shutdown`, up to a maximum number of open ones; more wait until one closes.
pub(super) fn accept(
    listener: Listener,
    at_once: usize,
    limits: &'static Limits,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> (impl Stream<Item = Connection>, CloseAll) {
    let (close_all, uncut) = watch::channel(());
    let places = Arc::new(Semaphore::new(at_once));
    let end = shutdown.then(|()| time::sleep(LAST_ACCEPTS)).boxed();
    let state = (listener, places, uncut, end);
    let connections = stream::unfold(state, async |(listener, places, uncut, mut end)| {
        let place = tokio::select! {
            place = Arc::clone(&places).acquire_owned() => place.ok()?, // it is never closed
            () = &mut end => return None,
        };
        loop {
            let accepted = tokio::select! {
                biased;
                accepted = listener.accept() => accepted,
                () = &mut end => return None,
            };
            match accepted {
                Ok((socket, peer)) => {
                    let connection = Connection::new(socket, peer, place, uncut.clone(), limits);
                    return Some((connection, (listener, places, uncut, end)));
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    // Most likely file descriptors have run out.
                    time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
    });
    (connections, close_all)
}

/// Time in which a peer must answer the PING that begins a drain (RFC 9113, 6.8). One that reads nothing
/// would otherwise delay the end until its keepalive fails, after 15 seconds.
const DRAIN_ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// State shared by the calls of a connection.
#[derive(Clone, Debug)]
pub(super) struct ConnectionInfo {
    /// Limits on the bytes that the calls may hold.
    pub(super) budgets: Budgets,
    /// `None` for a Unix socket.
    pub(super) peer: Option<IpAddr>,
    /// Name in the certificate of the peer, once a call has read it.
    pub(super) certificate: Arc<OnceLock<Option<Arc<str>>>>,
}

/// Connection that a silent peer cannot keep open, and that ends when it is cut.
pub(super) struct Connection {
    socket: Pin<Box<TimeoutStream<Box<dyn Socket>>>>,
    cut: BoxFuture<'static, ()>,
    info: ConnectionInfo,
    /// `true` once bytes have been read since this was last cleared.
    has_read: Arc<AtomicBool>,
    /// Dropped with the connection.
    open: Option<oneshot::Sender<()>>,
    _place: OwnedSemaphorePermit,
}

impl Connection {
    fn new(
        socket: Box<dyn Socket>,
        peer: Option<IpAddr>,
        place: OwnedSemaphorePermit,
        mut uncut: watch::Receiver<()>,
        limits: &Limits,
    ) -> Self {
        let mut socket = TimeoutStream::new(socket);
        // A peer that is alive acknowledges a ping more often than this, and reads its answers.
        socket.set_read_timeout(Some(Duration::from_secs(30)));
        socket.set_write_timeout(Some(Duration::from_secs(10)));
        let cut = async move { while uncut.changed().await.is_ok() {} };
        let budgets = Budgets::new(limits, limits.connection_share);
        let info = ConnectionInfo { budgets, peer, certificate: Arc::default() };
        let (socket, has_read) = (Box::pin(socket), Arc::default());
        Self { socket, cut: cut.boxed(), info, has_read, open: None, _place: place }
    }

    /// Returns a future that completes when the connection is dropped. To be called once.
    pub(super) fn closed(&mut self) -> impl Future<Output = ()> + Send + use<> {
        let (open, closed) = oneshot::channel();
        self.open = Some(open);
        closed.map(drop)
    }

    /// Cuts the connection also if its peer sends nothing for [`DRAIN_ANSWER_TIMEOUT`] from `drain` on.
    pub(super) fn cut_if_silent(&mut self, drain: impl Future<Output = ()> + Send + 'static) {
        let has_read = Arc::clone(&self.has_read);
        let silent = async move {
            drain.await;
            has_read.store(false, Ordering::Relaxed);
            time::sleep(DRAIN_ANSWER_TIMEOUT).await;
            if has_read.load(Ordering::Relaxed) {
                pending::<()>().await; // it is alive, and its calls may take until their end
            }
        };
        let cut = mem::replace(&mut self.cut, pending().boxed());
        self.cut = select(cut, silent.boxed()).map(drop).boxed();
    }

    /// Fails if the connection is cut. HTTP/2 always has a read pending, so a cut is noticed at once.
    fn check(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        match self.cut.poll_unpin(context) {
            Poll::Ready(()) => Err(io::ErrorKind::ConnectionAborted.into()),
            Poll::Pending => Ok(()),
        }
    }
}

impl Connected for Connection {
    type ConnectInfo = ConnectionInfo;

    fn connect_info(&self) -> ConnectionInfo {
        self.info.clone()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(context)?;
        let read = self.socket.as_mut().poll_read(context, buffer);
        if read.is_ready() {
            self.has_read.store(true, Ordering::Relaxed);
        }
        read
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.socket.as_mut().poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.socket.as_mut().poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket.as_mut().poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.socket.as_mut().poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::{pending, ready},
        pin::pin,
    };

    use futures_util::{StreamExt, poll};
    use tokio::net::TcpStream;

    use super::*;

    #[tokio::test]
    async fn connections_beyond_the_bound_wait_until_one_closes() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (connections, _close_all) = accept(Listener::Tcp(listener), 2, &Limits::DEFAULT, pending());
        let mut connections = pin!(connections);
        let mut peers = Vec::new();
        for _ in 0..3 {
            peers.push(TcpStream::connect(address).await.unwrap());
        }
        let first = connections.next().await;
        let _second = connections.next().await;
        assert!(poll!(connections.next()).is_pending(), "a third was accepted");
        drop(first);
        assert!(connections.next().await.is_some());
    }

    #[tokio::test]
    async fn connections_that_wait_at_shutdown_are_accepted() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut peers = Vec::new();
        for _ in 0..3 {
            peers.push(TcpStream::connect(address).await.unwrap());
        }
        let (connections, _close_all) = accept(Listener::Tcp(listener), 8, &Limits::DEFAULT, ready(()));
        assert_eq!(connections.collect::<Vec<_>>().await.len(), 3);
        TcpStream::connect(address).await.unwrap_err();
    }
}
