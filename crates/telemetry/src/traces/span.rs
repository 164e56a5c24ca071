//! Span: one part of a request's work.

use std::{
    borrow::Cow,
    future::Future,
    pin::Pin,
    task::{self, Poll},
    time::Duration,
};

use http::HeaderMap;
use opentelemetry::{
    Context, KeyValue, Value,
    trace::{SpanKind, Status, TraceContextExt, TraceId, Tracer},
};
use opentelemetry_sdk::trace::SdkTracer;

use super::write_parent;

/// One part of a request's work, from its creation until it is dropped, even if the work is abandoned.
///
/// It may be empty, if traces are off. It may also belong to a trace that is not recorded, and is then only
/// propagated.
#[derive(Debug)]
pub struct Span(Option<Context>);

impl Span {
    /// Returns an empty span.
    pub const fn none() -> Self {
        Self(None)
    }

    pub(crate) const fn of(context: Context) -> Self {
        Self(Some(context))
    }

    /// Begins a part of the current span's work. Without a current span that is recorded, it is
    /// [`Self::none`], and `describe` is not called.
    pub fn child(kind: SpanKind, describe: impl FnOnce() -> SpanDescription) -> Self {
        let begin = |parent: &Context, tracer: &SdkTracer| {
            let SpanDescription { name, attributes } = describe();
            let builder = tracer.span_builder(name).with_kind(kind).with_attributes(attributes);
            let span = builder.start_with_context(tracer, parent);
            parent.with_span(span)
        };
        Self(if_recorded(begin))
    }

    /// Records a part of the current span's work that has just ended.
    pub fn past(kind: SpanKind, took: Duration, failed: bool, describe: impl FnOnce() -> SpanDescription) {
        if_recorded(|parent, tracer| {
            let SpanDescription { name, attributes } = describe();
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
#[derive(Debug)]
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

/// Name and attributes of a span.
#[derive(Clone, Debug)]
pub struct SpanDescription {
    /// Name of low cardinality. Details of this work are attributes.
    pub name: Cow<'static, str>,
    /// Names and values of the attributes.
    pub attributes: Vec<KeyValue>,
}

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
    #[derive(Debug)]
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
