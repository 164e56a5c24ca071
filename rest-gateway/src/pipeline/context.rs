//! Facts about a request that its head shows, determined once.

use std::net::IpAddr;

use http::request::Parts;
use petstore_telemetry::traces::{Root, Span, Within};
use tokio::time::Instant;

use crate::{
    client_address::ClientAddress,
    cors,
    gateway::GatewayState,
    keys::KnownKey,
    metrics::Active,
    operation::{Operation, is_versioned},
    request_id::{Caller, RequestId},
};

/// A request in flight. Every step of the pipeline reads it.
#[derive(Debug)]
pub(super) struct RequestContext {
    pub(super) operation: Operation,
    /// `true` if the path is `/v1` or below it. The answer then shows limits, and failures have Error bodies.
    pub(super) is_versioned: bool,
    pub(super) request_id: RequestId,
    /// Network that the request came from.
    pub(super) address: ClientAddress,
    /// Rights of the web page's origin to the answer; `None` while CORS is off.
    pub(super) cors: Option<cors::Grant>,
    pub(super) started: Instant,
    pub(super) span: Span,
    _active: Active,
}

impl RequestContext {
    pub(super) fn new(gateway: &GatewayState, request: &Parts, peer: IpAddr) -> Self {
        let path = request.uri.path();
        let operation = Operation::find(&request.method, path);
        Self {
            operation,
            is_versioned: is_versioned(path),
            request_id: RequestId::from_headers(&request.headers, &gateway.clock),
            address: gateway.settings.trusted_proxies.client(peer, &request.headers),
            cors: cors::judge(&gateway.settings.cors_origins, request),
            started: Instant::now(),
            span: gateway
                .settings
                .traces
                .request(&request.headers, Root::Sampled, || operation.title().into()),
            _active: gateway.metrics.active(),
        }
    }

    /// Returns the caller of an admitted request.
    pub(super) fn caller(&self, key: &KnownKey) -> Caller {
        Caller { account_id: key.account_id, plan: key.plan, request_id: self.request_id.clone() }
    }

    /// Runs a part of the request's work within its span.
    pub(super) fn within<F: Future>(&self, work: F) -> Within<F> {
        self.span.within(work)
    }
}
