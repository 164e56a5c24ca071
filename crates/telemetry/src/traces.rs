//! Traces of requests, with OpenTelemetry.
//!
//! [`Traces`] begins the span of a request where it enters a service. While that [`Span`] runs a future,
//! [`Span::child`] and [`Span::past`] find it, so that neither a limiter nor a store takes it as an argument.
//! Work that moves to another task takes it along ([`Current`]). [`Span::write`] passes it to the next
//! service. While traces are off, which is the default, a span is only a comparison.
//!
//! The service where a trace begins decides whether it is recorded; services below follow that decision. A
//! service that strangers can reach must not pass their header fields to [`Traces::request`] before it knows
//! that they may decide.
//!
//! Names follow OpenTelemetry's semantic conventions; others begin with `petstore.`. No name or value comes
//! from a request, because it could contain a key. Only `tracestate` is passed on as it was sent.

#[cfg(feature = "otlp")]
mod export;
#[cfg(test)]
mod tests;

use std::{
    borrow::Cow,
    collections::HashMap,
    future::Future,
    pin::Pin,
    task::{self, Poll},
    time::Duration,
};

use http::{HeaderMap, HeaderValue};
use opentelemetry::{
    Context, Value,
    propagation::TextMapPropagator,
    trace::{Status, TraceContextExt, TraceId, Tracer},
};
pub use opentelemetry::{KeyValue, trace::SpanKind};
use opentelemetry_sdk::{propagation::TraceContextPropagator, trace::SdkTracer};
use petstore_caller::api_key::ApiKey;

#[cfg(feature = "otlp")]
pub use self::export::{Exporter, OtlpEndpoint, SpanMetrics};

/// Source of requests' spans. Clones record to the same place.
#[derive(Clone, Debug, Default)]
pub struct Traces(Option<SdkTracer>);

/// Policy for a request without a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Root {
    /// Begins a trace at the ratio of the settings.
    Sampled,
    /// Never begins a trace: such requests are background work.
    Never,
}

impl Traces {
    /// Returns a source that records nothing.
    pub const fn off() -> Self {
        Self(None)
    }

    /// Returns `true` if the header fields name a span that the request would belong to.
    pub fn continues(&self, headers: &HeaderMap) -> bool {
        self.0.is_some() && headers.contains_key(TRACEPARENT)
    }

    /// Begins the span of a request that came in. Its header fields may name the span that it belongs to
    /// (`traceparent` and `tracestate`, W3C Trace Context).
    pub fn request(&self, headers: &HeaderMap, root: Root, name: impl FnOnce() -> Cow<'static, str>) -> Span {
        let Some(tracer) = &self.0 else { return Span::none() };
        let parent = read_parent(headers);
        if root == Root::Never && !parent.has_active_span() {
            return Span::none();
        }
        let begun =
            tracer.span_builder(name()).with_kind(SpanKind::Server).start_with_context(tracer, &parent);
        Span(Some(Context::new().with_value(tracer.clone()).with_span(begun)))
    }
}

/// Name of the header field with the parent of a span (W3C Trace Context).
const TRACEPARENT: &str = "traceparent";

/// Name of the header field with what other tracing systems pass on beside it. Its lines are one list.
const TRACESTATE: &str = "tracestate";

/// Longest `tracestate` that is passed on, in bytes (W3C Trace Context §3.3.1.5).
const MAX_STATE_LEN: usize = 512;

/// Returns the span that the header fields name, or an empty context.
fn read_parent(headers: &HeaderMap) -> Context {
    let lines = |name| headers.get_all(name).into_iter().map(|line| line.to_str().unwrap_or_default());
    let mut parents = lines(TRACEPARENT);
    let parent = if let (Some(only), None) = (parents.next(), parents.next()) { only } else { "" };
    let state = lines(TRACESTATE).collect::<Vec<_>>().join(",");
    // Spans are exported.
    let is_left_out = state.len() > MAX_STATE_LEN || ApiKey::begins_in(&state);
    let state = if is_left_out { String::new() } else { state };
    let carrier =
        HashMap::from([(TRACEPARENT.to_owned(), parent.to_owned()), (TRACESTATE.to_owned(), state)]);
    TraceContextPropagator::new().extract_with_context(&Context::new(), &carrier)
}

/// Writes the context's span into the header fields.
fn write_parent(context: &Context, headers: &mut HeaderMap) {
    let mut carrier = HashMap::new();
    TraceContextPropagator::new().inject_context(context, &mut carrier);
    for name in [TRACEPARENT, TRACESTATE] {
        let value = carrier.remove(name).filter(|value| !value.is_empty());
        if let Some(value) = value.and_then(|value| HeaderValue::try_from(value).ok()) {
            headers.insert(name, value);
        }
    }
}

/// One part of a request's work, from its creation until it is dropped, even if the work is abandoned.
///
/// It may be empty, if traces are off. It may also belong to a trace that is not recorded, and is then only
/// propagated.
pub struct Span(Option<Context>);

impl Span {
    /// Returns an empty span.
    pub const fn none() -> Self {
        Self(None)
    }

    /// Begins a part of the current span's work. Without a current span that is recorded, it is
    /// [`Self::none`], and `describe` is not called.
    pub fn child(kind: SpanKind, describe: impl FnOnce() -> SpanDescription) -> Self {
        let begin = |parent: &Context, tracer: &SdkTracer| {
            let (name, attributes) = describe();
            let builder = tracer.span_builder(name).with_kind(kind).with_attributes(attributes);
            let span = builder.start_with_context(tracer, parent);
            parent.with_span(span)
        };
        Self(if_recorded(begin))
    }

    /// Records a part of the current span's work that has just ended.
    pub fn past(kind: SpanKind, took: Duration, failed: bool, describe: impl FnOnce() -> SpanDescription) {
        if_recorded(|parent, tracer| {
            let (name, attributes) = describe();
            let ended = opentelemetry::time::now();
            let mut builder = tracer.span_builder(name).with_kind(kind).with_attributes(attributes);
            builder.start_time = ended.checked_sub(took);
            let span = parent.with_span(builder.start_with_context(tracer, parent));
            if failed {
                span.span().set_status(Status::error(""));
            }
            span.span().end_with_timestamp(ended);
        });
    }

    /// Runs the future as this span's work.
    pub fn within<F: Future>(&self, work: F) -> Within<F> {
        Within { work, span: self.0.clone() }
    }

    /// Adds attributes, if the span is recorded.
    pub fn describe<const N: usize>(&self, attributes: impl FnOnce() -> [KeyValue; N]) {
        if let Some(context) = self.recorded() {
            context.span().set_attributes(attributes());
        }
    }

    /// Marks the work as failed, with this kind of failure (`error.type`).
    pub fn fail(&self, kind: impl Into<Value>) {
        if let Some(context) = self.recorded() {
            context.span().set_attribute(KeyValue::new("error.type", kind.into()));
            context.span().set_status(Status::error(""));
        }
    }

    /// Returns the trace of the span, if that is recorded.
    pub fn trace_id(&self) -> Option<TraceId> {
        self.recorded().map(|context| context.span().span_context().trace_id())
    }

    /// Writes this span into a request to another service as the parent; if it is empty, the current one.
    pub fn write(&self, headers: &mut HeaderMap) {
        match &self.0 {
            Some(context) => write_parent(context, headers),
            None => Context::map_current(|current| {
                if current.has_active_span() {
                    write_parent(current, headers);
                }
            }),
        }
    }

    fn recorded(&self) -> Option<&Context> {
        self.0.as_ref().filter(|context| context.span().is_recording())
    }
}

/// Handle of the current span, for another task that continues its work.
pub struct Current(Option<Context>);

impl Current {
    /// Returns the current span of the calling task, or none.
    pub fn take() -> Self {
        Self(Context::map_current(|current| current.has_active_span().then(|| current.clone())))
    }

    /// Runs the future as that span's work.
    pub fn within<F: Future>(&self, work: F) -> Within<F> {
        Within { work, span: self.0.clone() }
    }
}

/// Calls `begin` with the current span, or returns `None` if that is not recorded.
fn if_recorded<T>(begin: impl FnOnce(&Context, &SdkTracer) -> T) -> Option<T> {
    Context::map_current(|current| {
        let tracer = current.get::<SdkTracer>()?;
        current.span().span_context().is_sampled().then(|| begin(current, tracer))
    })
}

/// Name of a span, of low cardinality, and attributes with the details of its work.
pub type SpanDescription = (Cow<'static, str>, Vec<KeyValue>);

/// Ends the span, even if its context is still in use.
impl Drop for Span {
    fn drop(&mut self) {
        if let Some(context) = &self.0 {
            context.span().end();
        }
    }
}

pin_project_lite::pin_project! {
    /// Future whose current span is a [`Span`].
    pub struct Within<F> {
        #[pin]
        work: F,
        span: Option<Context>,
    }
}

impl<F: Future> Future for Within<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let _current = this.span.clone().map(Context::attach);
        this.work.poll(cx)
    }
}

/// Attributes of gRPC calls in spans.
pub mod grpc {
    use opentelemetry::KeyValue;

    /// Status codes by their number (gRPC, "Status codes and their use").
    #[rustfmt::skip]
    const STATUS: [&str; 17] = [
        "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
        "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE",
        "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
    ];

    /// Returns the name of a status code.
    pub fn status(code: i32) -> &'static str {
        usize::try_from(code).ok().and_then(|code| STATUS.get(code)).copied().unwrap_or("UNKNOWN")
    }

    /// Returns `true` if the status means that the server failed, and not that the call was refused.
    pub fn is_server_fault(code: i32) -> bool {
        matches!(
            status(code),
            "UNKNOWN" | "DEADLINE_EXCEEDED" | "UNIMPLEMENTED" | "INTERNAL" | "UNAVAILABLE" | "DATA_LOSS"
        )
    }

    /// Returns the attributes of a call's span at its start. The method is `package.Service/Method`.
    pub fn call(method: impl Into<opentelemetry::Value>) -> [KeyValue; 2] {
        [KeyValue::new("rpc.system.name", "grpc"), KeyValue::new("rpc.method", method)]
    }

    /// Returns the attributes of a call's span at its end.
    pub fn answered(code: i32) -> [KeyValue; 1] {
        [KeyValue::new("rpc.response.status_code", status(code))]
    }
}
