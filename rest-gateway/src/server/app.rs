//! What answers requests.

use std::fmt;

use axum::{Router, body::Body, response::Response};
use futures_util::{FutureExt, future::BoxFuture};
use http::Request;
use tower::ServiceExt;

/// Answers requests, each of which carries the address of its peer as an extension,
/// `axum::extract::ConnectInfo<SocketAddr>`.
pub trait App: fmt::Debug + Send + Sync {
    /// The answer. Its future is the only one that is allocated for a request.
    fn answer(&self, request: Request<Body>) -> BoxFuture<'static, Response>;
}

impl App for Router {
    fn answer(&self, request: Request<Body>) -> BoxFuture<'static, Response> {
        self.clone().oneshot(request).map(|answered| answered.unwrap_or_else(|never| match never {})).boxed()
    }
}
