//! Traces: what a request did and how long each part took, as OpenTelemetry sees it.
//!
//! [`Traces`] begins the span of a request where it enters a service. While that [`Span`] runs a future,
//! everything below finds it by itself ([`Span::child`], [`Span::past`]), so that neither a limiter nor a
//! store has to be handed anything; work that another task goes on with takes it along ([`Current`]);
//! [`Span::write`] tells the next service. Off, which is the default, a span is a comparison.
//!
//! A trace begins at most once, and whether it is recorded is decided there: services below keep to it.
//!
//! Names follow OpenTelemetry's semantic conventions; what these do not know begins with `petstore.`. Names
//! and values are of our own choosing, never a stranger's words: those could hold a key.

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

/// Begins the spans of requests. Clones record to the same place.
#[derive(Clone, Debug, Default)]
pub struct Traces(Option<SdkTracer>);

/// Whether a request that belongs to no trace may begin one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Root {
    /// As often as the settings say.
    Sampled,
    /// Never: such requests are work in the background.
    Never,
}

impl Traces {
    /// Records nothing.
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
