//! What answers requests.

use std::{fmt, net::SocketAddr};

use axum::{Router, body::Body, extract::ConnectInfo, response::Response};
use futures_util::{FutureExt, future::BoxFuture};
use http::Request;
use tower::ServiceExt;

/// Answers requests.
pub trait App: fmt::Debug + Send + Sync {
    /// The answer. Its future is the only one that is allocated for a request.
    fn answer(&self, request: Request<Body>, peer: SocketAddr) -> BoxFuture<'static, Response>;
}

/// Its handlers find the peer as an extension of the request, `axum::extract::ConnectInfo<SocketAddr>`.
impl App for Router {
    fn answer(&self, mut request: Request<Body>, peer: SocketAddr) -> BoxFuture<'static, Response> {
        request.extensions_mut().insert(ConnectInfo(peer));
        self.clone().oneshot(request).map(|answered| answered.unwrap_or_else(|never| match never {})).boxed()
    }
}
