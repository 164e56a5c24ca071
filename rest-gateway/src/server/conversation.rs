//! An HTTP connection of either version, from its first request to its last.

use std::{
    future::Future,
    net::SocketAddr,
    pin::{Pin, pin},
    task::{Context, Poll},
    time::Duration,
};

use hyper::server::conn::{http1, http2};
use hyper_util::rt::TokioIo;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::watch,
    time::sleep,
};

use super::{connection::PeerService, limits::ServerLimits, streams::Streams};

/// What the two versions have in common.
pub(super) trait Conversation {
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<hyper::Result<()>>;

    /// Lets the requests under way finish, tells the client that there will be no more, and closes an idle
    /// connection at once.
    fn finish(&mut self);
}

impl<I: AsyncRead + AsyncWrite + Unpin + 'static> Conversation
    for http1::Connection<TokioIo<I>, PeerService>
{
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<hyper::Result<()>> {
        self.poll_without_shutdown(cx) // the socket is closed by `linger`
    }

    fn finish(&mut self) {
        Pin::new(self).graceful_shutdown();
    }
}

impl<I: AsyncRead + AsyncWrite + Unpin + Send + 'static> Conversation
    for http2::Connection<TokioIo<I>, PeerService, Streams>
{
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<hyper::Result<()>> {
        Pin::new(self).poll(cx)
    }

    fn finish(&mut self) {
        Pin::new(self).graceful_shutdown();
    }
}

/// How a conversation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// One of the two sides ended it.
    Over,
    /// It did not end when it was to, and has to be cut off.
    Overdue,
}

/// Lets the conversation go on until it ends, the server stops, it is of age, or `idle` ends.
pub(super) async fn converse(
    conversation: &mut impl Conversation,
    peer: SocketAddr,
    limits: &ServerLimits,
    mut stopping: watch::Receiver<()>,
    idle: impl Future<Output = ()>,
) -> End {
    let mut idle = pin!(idle);
    let mut age = pin!(sleep(spread(limits.max_connection_age, peer)));
    let mut leaving = Leaving::No;
    loop {
        let ended = std::future::poll_fn(|cx| conversation.poll_end(cx));
        tokio::select! {
            biased;
            ended = ended => {
                if let Err(error) = ended {
                    tracing::debug!(%peer, %error, "a connection ended early");
                }
                return End::Over;
            }
            () = &mut age => {
                if leaving == Leaving::WithinGrace {
                    tracing::debug!(%peer, "cut off a connection that did not end when it was to");
                    return End::Overdue;
                }
                leaving = Leaving::WithinGrace;
                age.set(sleep(limits.connection_age_grace));
            }
            () = &mut idle, if leaving == Leaving::No => {
                leaving = Leaving::WithinGrace;
                age.set(sleep(limits.connection_age_grace));
            }
            // The sender says nothing but that it is gone.
            _ = stopping.changed(), if leaving == Leaving::No => leaving = Leaving::OfStop,
        }
        conversation.finish();
    }
}

/// Whether a connection is to end after the requests under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaving {
    No,
    /// The server stops, and cuts it off itself at its deadline.
    OfStop,
    /// It is of age or idle.
    WithinGrace,
}

/// Up to a tenth longer, so that connections that opened together do not close together. The peer's port is as
/// good as a random number here.
fn spread(age: Duration, peer: SocketAddr) -> Duration {
    let tenth = age / 10;
    age.saturating_add(tenth * u32::from(peer.port() % 64) / 64)
}
