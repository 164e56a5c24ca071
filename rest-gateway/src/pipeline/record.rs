//! The records of an answered request: usage, metrics, its span, and one line of the log.

use std::sync::Arc;

use axum::response::Response;
use petstore_proto::v1::ErrorReason;
use petstore_telemetry::traces::KeyValue;

use super::context::RequestContext;
use crate::{
    gateway::GatewayState,
    keys::KnownKey,
    metrics::RequestOutcome,
    operation::{Counts, Id},
};

/// Counts the answer and writes its line. `key` is the request's key if it may be used, and `refused_key` is
/// its key if it is known but may not be used. The request id is the line's only text from the client,
/// because its characters are limited: a path or a query could hold a key.
pub(super) fn record(
    gateway: &GatewayState,
    context: &RequestContext,
    key: Option<&Arc<KnownKey>>,
    refused_key: Option<&KnownKey>,
    response: &Response,
) {
    let RequestContext { operation, .. } = context;
    if let Some(key) = key
        && operation.counts == Counts::Quota
    {
        gateway.usage.count(key, response.status(), operation.id == Id::GetPet);
    }
    let took = context.started.elapsed();
    let status = response.status().as_u16();
    let reason = response.extensions().get::<ErrorReason>().copied();
    let code = reason.map(|reason| reason.code().name);
    let plan = key.map(|key| key.plan);
    gateway.metrics.answered(&RequestOutcome { operation, status, reason, plan, took });
    let known = key.map(|key| &**key).or(refused_key);
    describe(context, known, status, code);
    tracing::info!(
        target: "petstore_gateway::requests",
        request_id = context.request_id.as_str(),
        operation = operation.name,
        status,
        code,
        duration_ms = took.as_secs_f64() * 1_000.0,
        account_id = known.map(|key| key.account_id),
        key_id = known.map(|key| &*key.key_id),
        client = %context.address,
        trace_id = context.span.trace_id().map(tracing::field::display),
        "answered"
    );
}

/// Describes the answer in the request's span.
fn describe(context: &RequestContext, key: Option<&KnownKey>, status: u16, code: Option<&'static str>) {
    let RequestContext { operation, span, .. } = context;
    span.describe(|| {
        [
            KeyValue::new("http.request.method", operation.method),
            KeyValue::new("http.response.status_code", i64::from(status)),
            KeyValue::new("client.address", context.address.to_string()),
            KeyValue::new("petstore.operation", operation.name),
            KeyValue::new("petstore.code", code.unwrap_or("OK")),
            KeyValue::new("petstore.request_id", context.request_id.as_str().to_owned()),
        ]
    });
    if !operation.path.is_empty() {
        span.describe(|| [KeyValue::new("http.route", operation.path)]);
    }
    if let Some(key) = key {
        span.describe(|| {
            [
                KeyValue::new("petstore.account_id", key.account_id),
                KeyValue::new("petstore.key_id", key.key_id.to_string()),
            ]
        });
    }
    if status >= 500 {
        span.fail(code.unwrap_or("INTERNAL"));
    }
}
