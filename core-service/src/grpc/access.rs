//! Who may call: clients that show the credentials that the operator requires. Health alone is open, because
//! load balancers and orchestrators ask for it and have nothing to show.

use std::{
    sync::{Arc, PoisonError, RwLock},
    task::{Context, Poll},
};

use futures_util::future::{Either, Ready, ready};
use http::{HeaderMap, Request, Response, header::AUTHORIZATION};
use petstore_api_key::ServiceToken;
use tonic::{Status, body::Body, transport::server::TlsConnectInfo};
use tonic_health::pb::health_server;
use tower::{Layer, Service};

use super::{admin, receive::Budgets};

/// The token that callers must show. Clones are the same: it can be replaced while the port is served.
#[derive(Clone, Debug)]
pub struct RequiredToken(Arc<RwLock<ServiceToken>>);

impl RequiredToken {
    pub(super) fn new(token: ServiceToken) -> Self {
        Self(Arc::new(RwLock::new(token)))
    }

    /// From now on callers must show this token instead.
    pub fn replace(&self, token: ServiceToken) {
        // No code panics while it holds the lock.
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = token;
    }

    /// Whether the token is what somebody shows.
    fn is(&self, shown: &[u8]) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).is(shown)
    }
}

/// What a caller must show: all of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Access {
    /// This token, as bearer credential.
    pub(super) token: Option<RequiredToken>,
    /// A certificate, which the TLS handshake has verified.
    pub(super) certificate: bool,
}

impl Access {
    fn check(&self, request: &Request<Body>) -> Result<(), Status> {
        if is_health(request.uri().path()) {
            return Ok(());
        }
        if self.certificate && !shows_certificate(request) {
            return Err(Status::unauthenticated("the caller must show a client certificate"));
        }
        // An operator shows a token of its own, which the service checks.
        match self.token.as_ref().filter(|_| !is_admin(request.uri().path())) {
            Some(token) if !shows_token(request.headers(), token) => {
                Err(Status::unauthenticated("the call must carry the service token as bearer credential"))
            }
            Some(_) | None => Ok(()),
        }
    }
}

fn is_health(path: &str) -> bool {
    let service = path.strip_prefix('/').and_then(|path| path.split_once('/')).map(|(service, _)| service);
    service == Some(health_server::SERVICE_NAME)
}

fn is_admin(path: &str) -> bool {
    path.strip_prefix('/').is_some_and(|rpc| rpc.starts_with(admin::PACKAGE))
}

/// Without the TLS layer there is no such extension, so that nothing is shown.
fn shows_certificate(request: &Request<Body>) -> bool {
    let connection = request.extensions().get::<TlsConnectInfo<Budgets>>();
    connection.and_then(TlsConnectInfo::peer_certs).is_some_and(|chain| !chain.is_empty())
}

/// `authorization: Bearer TOKEN`, once; the scheme in any case (RFC 9110 §11.1).
fn shows_token(headers: &HeaderMap, token: &RequiredToken) -> bool {
    let mut credentials = headers.get_all(AUTHORIZATION).into_iter();
    let (Some(credential), None) = (credentials.next(), credentials.next()) else { return false };
    let Some((scheme, shown)) = credential.as_bytes().split_at_checked("Bearer ".len()) else { return false };
    scheme.eq_ignore_ascii_case(b"Bearer ") && token.is(shown)
}

impl<S> Layer<S> for Access {
    type Service = Guarded<S>;

    fn layer(&self, inner: S) -> Guarded<S> {
        Guarded { access: self.clone(), inner }
    }
}

/// Every service of the port, behind the check.
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

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        match self.access.check(&request) {
            Ok(()) => Either::Right(self.inner.call(request)),
            Err(refusal) => {
                // Nothing in the caller's words, which could hold a key, and no line that it could repeat at
                // will above debug.
                tracing::debug!("refused a call: {}", refusal.message());
                Either::Left(ready(Ok(refusal.into_http())))
            }
        }
    }
}
