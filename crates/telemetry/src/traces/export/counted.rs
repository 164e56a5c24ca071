//! Counts of spans: sent, failed and dropped.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use crate::metrics;
use crate::metrics::{IntCounter, IntCounterVec, counters};
use opentelemetry::Context;
use opentelemetry_sdk::{
    Resource,
    error::OTelSdkResult,
    trace::{Span, SpanData, SpanExporter, SpanProcessor},
};

metrics! {
    /// Span counters. Clones share them.
    #[derive(Clone, Debug)]
    pub struct SpanMetrics {
        spans: IntCounterVec = counters(
            "petstore_trace_spans_total",
            "Spans sent, failed (refused by the receiver) or dropped (the queue was full).",
            &["outcome"],
        ),
    }
}

/// Counters that both ends of the queue share.
#[derive(Clone, Debug)]
pub(super) struct Counts {
    waiting: Arc<AtomicUsize>,
    sent: IntCounter,
    failed: IntCounter,
    dropped: IntCounter,
}

/// Processor that bounds the queue and counts dropped spans. The SDK's own queue drops too, without a count.
#[derive(Debug)]
pub(super) struct CountedProcessor<P> {
    queue: P,
    capacity: usize,
    counts: Counts,
}

impl<P> CountedProcessor<P> {
    /// Creates a queue of this capacity. `queue` makes its other end, which shares the counters.
    pub(super) fn new(capacity: usize, metrics: &SpanMetrics, queue: impl FnOnce(Counts) -> P) -> Self {
        let [sent, failed, dropped] =
            ["sent", "failed", "dropped"].map(|outcome| metrics.spans.with_label_values(&[outcome]));
        let counts = Counts { waiting: Arc::default(), sent, failed, dropped };
        Self { queue: queue(counts.clone()), capacity, counts }
    }
}

impl<P: SpanProcessor> SpanProcessor for CountedProcessor<P> {
    fn on_start(&self, span: &mut Span, context: &Context) {
        self.queue.on_start(span, context);
    }

    fn on_end(&self, span: SpanData) {
        let one_more = |waiting| (waiting < self.capacity).then_some(waiting + 1);
        if self.counts.waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok() {
            self.queue.on_end(span);
        } else {
            self.counts.dropped.inc();
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.queue.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.queue.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.queue.set_resource(resource);
    }
}

/// Exporter that counts the spans it sends.
#[derive(Debug)]
pub(super) struct CountedExporter<E> {
    exporter: E,
    counts: Counts,
    /// `true` if the receiver did not accept the last message.
    is_away: AtomicBool,
}

impl<E> CountedExporter<E> {
    pub(super) fn new(exporter: E, counts: Counts) -> Self {
        Self { exporter, counts, is_away: AtomicBool::new(false) }
    }
}

impl<E: SpanExporter> SpanExporter for CountedExporter<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len();
        let result = self.exporter.export(batch).await;
        self.counts.waiting.fetch_sub(spans, Ordering::Relaxed);
        let outcome = if result.is_ok() { &self.counts.sent } else { &self.counts.failed };
        outcome.inc_by(spans as u64);
        // One line per change, not one per message.
        match (self.is_away.swap(result.is_err(), Ordering::Relaxed), &result) {
            (false, Err(error)) => tracing::warn!(%error, "the trace receiver does not accept spans"),
            (true, Ok(())) => tracing::info!("the trace receiver accepts spans again"),
            (false, Ok(())) | (true, Err(_)) => {}
        }
        result
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use opentelemetry::trace::{Tracer, TracerProvider};
    use opentelemetry_sdk::{error::OTelSdkError, trace::SdkTracerProvider};

    use super::*;

    /// Processor that keeps spans until they are flushed.
    #[derive(Clone, Debug, Default)]
    struct Held(Arc<Mutex<Vec<SpanData>>>);

    impl SpanProcessor for Held {
        fn on_start(&self, _: &mut Span, _: &Context) {}

        fn on_end(&self, span: SpanData) {
            self.0.lock().unwrap().push(span);
        }

        fn force_flush(&self) -> OTelSdkResult {
            Ok(())
        }

        fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
            Ok(())
        }
    }

    /// Receiver that accepts single spans only.
    #[derive(Debug)]
    struct Picky;

    impl SpanExporter for Picky {
        async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
            if batch.len() == 1 { Ok(()) } else { Err(OTelSdkError::InternalFailure("too many".into())) }
        }
    }

    #[tokio::test]
    async fn every_span_is_counted_as_sent_failed_or_dropped_and_the_queue_is_bounded() {
        let (metrics, held) = (SpanMetrics::default(), Held::default());
        let mut way_out = None;
        let queue = CountedProcessor::new(3, &metrics, |counts| {
            way_out = Some(CountedExporter::new(Picky, counts));
            held.clone()
        });
        let way_out = way_out.unwrap();
        let provider = SdkTracerProvider::builder().with_span_processor(queue).build();
        let end = |spans: usize| (0..spans).for_each(|_| drop(provider.tracer("test").start("span")));
        let take = |spans: usize| held.0.lock().unwrap().drain(..spans).collect::<Vec<_>>();
        let counted =
            || ["sent", "failed", "dropped"].map(|outcome| metrics.spans.with_label_values(&[outcome]).get());

        end(5);
        assert_eq!((held.0.lock().unwrap().len(), counted()), (3, [0, 0, 2]));
        way_out.export(take(1)).await.unwrap();
        assert_eq!(counted(), [1, 0, 2]);
        way_out.export(take(2)).await.unwrap_err();
        assert_eq!(counted(), [1, 2, 2]);
        end(4);
        assert_eq!((held.0.lock().unwrap().len(), counted()), (3, [1, 2, 3]));
    }
}
