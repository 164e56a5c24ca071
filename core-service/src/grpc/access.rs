//! Access control: clients must show the credentials that the operator requires. Only health is open, because
//! load balancers and orchestrators have no credentials.

use std::{
    net::IpAddr,
    sync::{Arc, PoisonError, RwLock},
    task::{Context, Poll},
};

use futures_util::future::{Either, Ready, ready};
use http::{HeaderMap, Request, Response};
use petstore_api_key::{ServiceToken, bearer};
use tonic::{Status, body::Body, transport::server::TlsConnectInfo};
use tower::{Layer, Service};

use super::{
    connection::ConnectionInfo,
    methods::{Callers, Method},
};

/// Metadata with the service token of a call whose bearer credential is an operator's token.
const SERVICE_TOKEN: &str = "petstore-service-token";

/// Token that callers must show. Clones share it, so it can be replaced while the port is served.
#[derive(Clone, Debug)]
pub struct RequiredToken(Arc<RwLock<ServiceToken>>);

impl RequiredToken {
    pub(super) fn new(token: ServiceToken) -> Self {
        Self(Arc::new(RwLock::new(token)))
    }

    /// Replaces the token that callers must show.
    pub fn replace(&self, token: ServiceToken) {
        // No code panics while it holds the lock.
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = token;
    }

    /// Returns `true` if `shown` is the token.
    fn is(&self, shown: &[u8]) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).is(shown)
    }
}

/// Credentials that a caller must show, all of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Access {
    /// This token, as bearer credential.
    pub(super) token: Option<RequiredToken>,
    /// A certificate, which the TLS handshake has verified.
    pub(super) certificate: bool,
}

impl Access {
    /// Returns the caller if it may call; `None` if the method is open to everyone.
    fn check(&self, request: &Request<Body>) -> Result<Option<Peer>, Status> {
        let callers = Method::find(request.uri().path()).callers;
        if callers == Callers::Everyone {
            return Ok(None);
        }
        if self.certificate && !shows_certificate(request) {
            return Err(Status::unauthenticated("the caller must show a client certificate"));
        }
        if let Some(token) = &self.token {
            if callers == Callers::Operators {
                if !shows_token_beside(request.headers(), token) {
                    let message = "the call must carry the service token as petstore-service-token";
                    return Err(Status::unauthenticated(message));
                }
            } else if !bearer(request.headers()).is_ok_and(|shown| token.is(shown.as_bytes())) {
                let message = "the call must carry the service token as bearer credential";
                return Err(Status::unauthenticated(message));
            }
        }
        let address = request.extensions().get::<ConnectionInfo>().and_then(|connection| connection.peer);
        // A Unix socket, which has no address, is open to its owner only.
        Ok(Some(Peer { address, is_gateway: self.certificate || self.token.is_some() || address.is_none() }))
    }
}

/// The caller of a request on a socket.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer {
    pub(super) address: Option<IpAddr>,
    /// `true` for a caller that has proved to be a gateway.
    pub(super) is_gateway: bool,
}

/// Returns `true` if the caller showed a certificate. Without the TLS layer the extension is missing.
fn shows_certificate(request: &Request<Body>) -> bool {
    let connection = request.extensions().get::<TlsConnectInfo<ConnectionInfo>>();
    connection.and_then(TlsConnectInfo::peer_certs).is_some_and(|chain| !chain.is_empty())
}

/// Returns `true` if the token is present exactly once, in addition to the credential of an operator.
fn shows_token_beside(headers: &HeaderMap, token: &RequiredToken) -> bool {
    let mut shown = headers.get_all(SERVICE_TOKEN).into_iter();
    matches!((shown.next(), shown.next()), (Some(shown), None) if token.is(shown.as_bytes()))
}

impl<S> Layer<S> for Access {
    type Service = Guarded<S>;

    fn layer(&self, inner: S) -> Guarded<S> {
        Guarded { access: self.clone(), inner }
    }
}

/// Every service of the port, behind the access check.
#[derive(Clone, Debug)]
pub(super) struct Guarded<S> {
    access: Access,
    inner: S,
}

impl<S> Service<Request<Body>> for Guarded<S>
where
    S: Service<Request<Body>, Response = Response<Body>>,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Either<Ready<Result<Response<Body>, S::Error>>, S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        match self.access.check(&request) {
            Ok(peer) => {
                if let Some(peer) = peer {
                    request.extensions_mut().insert(peer);
                }
                Either::Right(self.inner.call(request))
            }
            Err(refusal) => {
                // No text of the caller, which could hold a key, and no line above debug that it could repeat
                // at will.
                tracing::debug!("refused a call: {}", refusal.message());
                Either::Left(ready(Ok(refusal.into_http())))
            }
        }
    }
}
