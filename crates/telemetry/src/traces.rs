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
pub mod grpc;
mod span;
#[cfg(test)]
mod tests;

use std::{borrow::Cow, collections::HashMap};

use http::{HeaderMap, HeaderValue};
use opentelemetry::{
    Context,
    propagation::TextMapPropagator,
    trace::{TraceContextExt, Tracer},
};
pub use opentelemetry::{KeyValue, trace::SpanKind};
use opentelemetry_sdk::{propagation::TraceContextPropagator, trace::SdkTracer};

#[cfg(feature = "otlp")]
pub use self::export::{Exporter, ExporterSettings, OtlpEndpoint, SpanMetrics};
pub use self::span::{Current, Span, SpanDescription, Within};

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
        Span::of(Context::new().with_value(tracer.clone()).with_span(begun))
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
    let state = if state.len() > MAX_STATE_LEN { String::new() } else { state };
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
