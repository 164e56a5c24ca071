//! Traces of requests, with OpenTelemetry.
//!
//! [`Traces`] begins the span of a request where it enters a service. While that [`Span`] runs a future,
//! [`Span::child`] and [`Span::past`] find it, so that neither a limiter nor a store takes it as an argument.
//! Work that moves to another task takes it along ([`Current`]). [`Span::write`] passes it to the next
//! service. While traces are off, which is the default, a span is only a comparison.
//!
//! The service where a trace begins decides whether it is recorded; services below follow that decision.
//!
//! Names follow OpenTelemetry's semantic conventions; others begin with `petstore.`. No name or value comes
//! from a request, because it could contain a key.

mod export;
pub mod grpc;
mod propagation;
mod span;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use opentelemetry::{
    Context,
    trace::{TraceContextExt, Tracer},
};
pub use opentelemetry::{KeyValue, trace::SpanKind};
use opentelemetry_sdk::trace::SdkTracer;

pub use self::{
    export::{Exporter, ExporterSettings, InvalidEndpoint, OtlpEndpoint, SpanMetrics},
    span::{Current, Span, SpanDescription, Within},
};

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
    #[must_use]
    pub const fn off() -> Self {
        Self(None)
    }

    /// Begins the span of a request that came in. Its header fields may name the span that it belongs to
    /// (`traceparent`, W3C Trace Context).
    #[must_use]
    pub fn request(
        &self,
        headers: &http::HeaderMap,
        root: Root,
        name: impl FnOnce() -> Cow<'static, str>,
    ) -> Span {
        let Some(tracer) = &self.0 else { return Span::none() };
        let parent = propagation::read(headers);
        if root == Root::Never && !parent.has_active_span() {
            return Span::none();
        }
        let begun =
            tracer.span_builder(name()).with_kind(SpanKind::Server).start_with_context(tracer, &parent);
        Span::of(Context::new().with_value(tracer.clone()).with_span(begun))
    }
}
