//! Propagation between services: `traceparent` (W3C Trace Context).
//!
//! `tracestate` is neither read nor passed on: its sender may put anything into it, and it would be recorded.

use http::{HeaderMap, HeaderName, HeaderValue};
use opentelemetry::{
    Context,
    propagation::{Extractor, Injector, TextMapPropagator},
};
use opentelemetry_sdk::propagation::TraceContextPropagator;

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// Returns the span that the header fields name, or an empty context.
pub(crate) fn read(headers: &HeaderMap) -> Context {
    TraceContextPropagator::new().extract_with_context(&Context::new(), &Traceparent(headers))
}

/// Writes the context's span into the header fields.
pub(crate) fn write(context: &Context, headers: &mut HeaderMap) {
    TraceContextPropagator::new().inject_context(context, &mut Written(headers));
}

struct Traceparent<'a>(&'a HeaderMap);

impl Extractor for Traceparent<'_> {
    fn get(&self, name: &str) -> Option<&str> {
        let mut fields = self.0.get_all(TRACEPARENT).into_iter();
        match (fields.next(), fields.next()) {
            (Some(only), None) if name == TRACEPARENT => only.to_str().ok(),
            _ => None,
        }
    }

    fn keys(&self) -> Vec<&str> {
        vec!["traceparent"]
    }
}

struct Written<'a>(&'a mut HeaderMap);

impl Injector for Written<'_> {
    fn set(&mut self, name: &str, value: String) {
        if name == TRACEPARENT
            && let Ok(value) = HeaderValue::try_from(value)
        {
            self.0.insert(TRACEPARENT, value);
        }
    }
}
