//! What is kept of a request when it has been answered: metrics, and one line of the log.

use axum::response::Response;
use http::request::Parts;
use petstore_proto::v1::ErrorReason;
use petstore_telemetry::traces::{KeyValue, Root, Span, Within};
use tokio::time::Instant;

use super::request_id::RequestId;
use crate::{
    client_address::ClientAddress,
    error,
    gateway::GatewayState,
    keys::KnownKey,
    metrics::{Active, Ending},
    operation::Operation,
};

/// A request under way.
#[derive(Debug)]
pub(super) struct Observation {
    operation: Operation,
    started: Instant,
    span: Span,
    _active: Active,
}

/// Who sent a request, as far as that is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sender<'a> {
    pub(super) request_id: &'a RequestId,
    /// The key, if it was valid.
    pub(super) key: Option<&'a KnownKey>,
    pub(super) address: ClientAddress,
}

impl Observation {
    pub(super) fn begin(gateway: &GatewayState, request: &Parts) -> Self {
        let operation = Operation::of(&request.method, request.uri.path());
        Self {
            operation,
            started: Instant::now(),
            span: gateway
                .settings
                .traces
                .request(&request.headers, Root::Sampled, || operation.title().into()),
            _active: gateway.metrics.active(),
        }
    }

    /// Does a part of the request's work.
    pub(super) fn within<F: Future>(&self, work: F) -> Within<F> {
        self.span.within(work)
    }

    /// Counts the answer and writes its line. Nothing in the line is in the client's own words but the request id, whose
    /// characters are limited: a path or a query could hold a key.
    pub(super) fn end(self, gateway: &GatewayState, sender: Sender<'_>, response: &Response) {
        let Sender { request_id, key, address } = sender;
        let took = self.started.elapsed();
        let status = response.status().as_u16();
        let reason = response.extensions().get::<ErrorReason>().copied();
        let ending =
            Ending { operation: self.operation, status, reason, plan: key.map(|key| key.plan), took };
        gateway.metrics.answered(&ending);
        describe(&self.span, &ending, &sender);
        tracing::info!(
            target: "petstore_gateway::requests",
            request_id = request_id.as_str(),
            operation = self.operation.name(),
            status,
            code = reason.map(error::code),
            duration_ms = took.as_secs_f64() * 1_000.0,
            account_id = key.map(|key| key.account_id),
            key_id = key.map(|key| &*key.key_id),
            client = %address,
            trace_id = self.span.trace_id().map(display),
            "answered"
        );
    }
}

/// The same in the request's span.
fn describe(span: &Span, ending: &Ending, sender: &Sender<'_>) {
    let Ending { operation, status, reason, .. } = *ending;
    let (method, route) = operation.route();
    span.describe(|| {
        [
            KeyValue::new("http.request.method", method),
            KeyValue::new("http.response.status_code", i64::from(status)),
            KeyValue::new("client.address", sender.address.to_string()),
            KeyValue::new("petstore.operation", operation.name()),
            KeyValue::new("petstore.code", reason.map_or("OK", error::code)),
            KeyValue::new("petstore.request_id", sender.request_id.as_str().to_owned()),
        ]
    });
    if !route.is_empty() {
        span.describe(|| [KeyValue::new("http.route", route)]);
    }
    if let Some(key) = sender.key {
        span.describe(|| {
            [
                KeyValue::new("petstore.account_id", key.account_id),
                KeyValue::new("petstore.key_id", key.key_id.to_string()),
            ]
        });
    }
    if status >= 500 {
        span.fail(reason.map_or("INTERNAL", error::code));
    }
}
