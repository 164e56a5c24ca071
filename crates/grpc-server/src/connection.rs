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
use petstore_caller::client_address::ClientAddress;
use petstore_telemetry::{
    metrics,
    metrics::{GaugeGuard, IntCounter, IntGauge, counter, gauge},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, UnixListener},
    sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch},
    time,
};
use tokio_io_timeout::TimeoutStream;
use tonic::transport::server::Connected;

use crate::capacity::{Budgets, Limits};

/// Listener, bound by the process that calls [`serve`](crate::serve).
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

/// Accepts connections until `shutdown`, as long as there are [`Places`].
pub(super) fn accept(
    listener: Listener,
    at_once: usize,
    limits: &'static Limits,
    metrics: ConnectionMetrics,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> (impl Stream<Item = Connection>, CloseAll) {
    let (close_all, uncut) = watch::channel(());
    let places = Places::new(at_once, metrics);
    let end = shutdown.then(|()| time::sleep(LAST_ACCEPTS)).boxed();
    let state = (listener, places, uncut, end);
    let connections = stream::unfold(state, async |(listener, mut places, uncut, mut end)| {
        loop {
            let accepted = tokio::select! {
                biased;
                accepted = listener.accept() => accepted,
                () = &mut end => return None,
            };
            match accepted {
                Ok((socket, peer)) => {
                    let budgets = Budgets::of_connection(limits);
                    let info = ConnectionInfo {
                        budgets,
                        peer,
                        certificate: Arc::default(),
                        is_trusted: Arc::default(),
                    };
                    let place = tokio::select! {
                        place = places.take(&info) => place?,
                        () = &mut end => return None,
                    };
                    let connection = Connection::new(socket, info, place, uncut.clone());
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

metrics! {
    /// Metrics of the port's connections. Clones share them.
    #[derive(Clone, Debug)]
    pub(super) struct ConnectionMetrics {
        pub(super) waiting: IntGauge = gauge(
            "petstore_grpc_connections_waiting",
            "1 while a connection waits because callers with credentials have all places of the gRPC port.",
        ),
        reclaimed: IntCounter = counter(
            "petstore_grpc_connections_reclaimed_total",
            "gRPC connections closed for others, before their first call with credentials.",
        ),
    }
}

/// Places of open connections. A connection keeps its place from its first call with the required credentials
/// on. Before, it is a stranger: the oldest one gives its place up if a connection finds none free, and the
/// oldest of an address if that has half as many as there are places.
struct Places {
    free: Arc<Semaphore>,
    strangers_of_one_address: usize,
    /// The oldest first.
    strangers: Vec<Stranger>,
    metrics: ConnectionMetrics,
}

struct Stranger {
    /// `None` for a Unix socket.
    address: Option<ClientAddress>,
    is_trusted: Arc<AtomicBool>,
    cut: oneshot::Sender<()>,
}

/// Place of a connection, until it is dropped, and the order to give it up.
type Place = (OwnedSemaphorePermit, oneshot::Receiver<()>);

impl Places {
    fn new(at_once: usize, metrics: ConnectionMetrics) -> Self {
        let free = Arc::new(Semaphore::new(at_once));
        Self { free, strangers_of_one_address: at_once.div_ceil(2), strangers: Vec::new(), metrics }
    }

    /// Returns a place as soon as there is one.
    async fn take(&mut self, connection: &ConnectionInfo) -> Option<Place> {
        let address = connection.peer.map(ClientAddress::from);
        // Those that are open, and have made no call with credentials.
        self.strangers.retain(|it| !it.cut.is_closed() && !it.is_trusted.load(Ordering::Relaxed));
        let is_of_address = |stranger: &Stranger| stranger.address == address;
        let (of_address, is_full) = (
            self.strangers.iter().filter(|it| is_of_address(it)).count(),
            self.free.available_permits() == 0,
        );
        let oldest = if of_address >= self.strangers_of_one_address {
            self.strangers.iter().position(is_of_address)
        } else {
            (is_full && !self.strangers.is_empty()).then_some(0)
        };
        if let Some(oldest) = oldest {
            self.metrics.reclaimed.inc();
            let _ = self.strangers.remove(oldest).cut.send(()); // an error: it has just ended
        }
        let _waits = (is_full && oldest.is_none()).then(|| GaugeGuard::new(&self.metrics.waiting));
        let place = Arc::clone(&self.free).acquire_owned().await.ok()?; // it is never closed
        let (cut, is_cut) = oneshot::channel();
        self.strangers.push(Stranger { address, is_trusted: Arc::clone(&connection.is_trusted), cut });
        Some((place, is_cut))
    }
}

/// Time in which a peer must answer the PING that begins a drain (RFC 9113, 6.8). One that reads nothing
/// would otherwise delay the end until its keepalive fails, after 15 seconds.
const DRAIN_ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// State shared by the calls of a connection.
#[derive(Clone)]
pub(super) struct ConnectionInfo {
    /// Limits on the bytes that the calls may hold.
    pub(super) budgets: Budgets,
    /// `None` for a Unix socket.
    pub(super) peer: Option<IpAddr>,
    /// Name in the certificate of the peer, once a call has read it.
    pub(super) certificate: Arc<OnceLock<Option<Arc<str>>>>,
    /// `true` after a call with the credentials that it requires.
    pub(super) is_trusted: Arc<AtomicBool>,
}

/// Time for the first bytes.
const FIRST_BYTES_TIMEOUT: Duration = Duration::from_secs(5);

/// Time between two others. A peer that is alive acknowledges a ping more often, and reads its answers.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

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
        info: ConnectionInfo,
        (place, is_cut): Place,
        mut uncut: watch::Receiver<()>,
    ) -> Self {
        let mut socket = TimeoutStream::new(socket);
        socket.set_read_timeout(Some(FIRST_BYTES_TIMEOUT));
        socket.set_write_timeout(Some(Duration::from_secs(10)));
        let all_cut = async move { while uncut.changed().await.is_ok() {} };
        let this_cut = async {
            if is_cut.await.is_err() {
                pending::<()>().await; // it keeps its place
            }
        };
        let cut = select(all_cut.boxed(), this_cut.boxed()).map(drop).boxed();
        Self { socket: Box::pin(socket), cut, info, has_read: Arc::default(), open: None, _place: place }
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
        if read.is_ready() && !self.has_read.swap(true, Ordering::Relaxed) {
            self.socket.as_mut().set_read_timeout_pinned(Some(READ_TIMEOUT));
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
    use std::future::ready;

    use futures_util::StreamExt;
    use tokio::net::TcpStream;

    use super::*;

    /// Takes a place for a connection of this address.
    async fn take(places: &mut Places, peer: &str) -> (Arc<AtomicBool>, Place) {
        let info = ConnectionInfo {
            budgets: Budgets::of_server(&Limits::DEFAULT),
            peer: peer.parse().ok(),
            certificate: Arc::default(),
            is_trusted: Arc::default(),
        };
        let place = time::timeout(Duration::from_secs(5), places.take(&info)).await;
        (info.is_trusted, place.expect("a place in time").unwrap())
    }

    /// Gives the place up if it was told to.
    fn obey(
        (is_trusted, (permit, mut is_cut)): (Arc<AtomicBool>, Place),
    ) -> Option<(Arc<AtomicBool>, Place)> {
        let is_told = is_cut.try_recv().is_ok();
        (!is_told).then_some((is_trusted, (permit, is_cut)))
    }

    #[tokio::test]
    async fn strangers_of_one_address_have_half_of_the_places_and_the_oldest_gives_its_place_up() {
        let mut places = Places::new(4, ConnectionMetrics::default());
        let (first, second) = (take(&mut places, "192.0.2.1").await, take(&mut places, "192.0.2.1").await);
        let _third = take(&mut places, "192.0.2.1").await;
        assert!(obey(first).is_none(), "the oldest of three");
        let second = obey(second).expect("it is the second of two");
        second.0.store(true, Ordering::Relaxed);
        let _fourth = take(&mut places, "192.0.2.1").await;
        assert_eq!(places.metrics.reclaimed.get(), 1, "a trusted connection is no stranger");
        let of_another = take(&mut places, "2001:db8::1").await;
        assert!(obey(second).is_some() && obey(of_another).is_some());
    }

    #[tokio::test]
    async fn connections_that_wait_at_shutdown_are_accepted() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut peers = Vec::new();
        for _ in 0..3 {
            peers.push(TcpStream::connect(address).await.unwrap());
        }
        let metrics = ConnectionMetrics::default();
        let (connections, _close_all) =
            accept(Listener::Tcp(listener), 8, &Limits::DEFAULT, metrics, ready(()));
        assert_eq!(connections.collect::<Vec<_>>().await.len(), 3);
        TcpStream::connect(address).await.unwrap_err();
    }
}
