//! Export of spans to a receiver, over OTLP (gRPC).
//!
//! Requests never wait for the export. Spans that ended wait in a queue of [`QUEUE`] for a separate thread.
//! If the queue is full, a span is dropped, and counted like those that the receiver did not accept.

use std::{
    str::FromStr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use http::Uri;
use opentelemetry::{Context, KeyValue, trace::TracerProvider};
use opentelemetry_otlp::{ExporterBuildError, SpanExporter as OtlpExporter, WithExportConfig};
use opentelemetry_sdk::{
    Resource,
    error::OTelSdkResult,
    resource::{EnvResourceDetector, TelemetryResourceDetector},
    trace::{
        BatchConfigBuilder, BatchSpanProcessor, Sampler, SdkTracerProvider, Span, SpanData, SpanExporter,
        SpanProcessor,
    },
};

use super::Traces;
use crate::metrics::{IntCounterVec, counters};

/// Maximum number of spans that wait to be sent, including those in flight: about a megabyte.
const QUEUE: usize = 2_048;

/// Exporter that sends spans until it is stopped.
pub struct Exporter(SdkTracerProvider);

impl Exporter {
    /// Starts to send spans of this service and version, and of requests without an incoming trace this
    /// fraction, from 0 to 1. The receiver may be down. Must be called inside a Tokio runtime. The variable
    /// `OTEL_RESOURCE_ATTRIBUTES` adds attributes of the service (OpenTelemetry's Resource SDK).
    ///
    /// # Errors
    ///
    /// If the exporter cannot be built for this endpoint.
    pub fn start(
        endpoint: &OtlpEndpoint,
        ratio: f64,
        service: &'static str,
        version: &'static str,
        metrics: &SpanMetrics,
    ) -> Result<Self, ExporterBuildError> {
        let exporter = OtlpExporter::builder()
            .with_tonic()
            .with_endpoint(&endpoint.0)
            .with_timeout(Duration::from_secs(3))
            .build()?;
        let config = BatchConfigBuilder::default()
            .with_max_queue_size(QUEUE)
            .with_max_export_batch_size(512)
            .with_scheduled_delay(Duration::from_secs(1))
            .build();
        let exporter = Counted::new(exporter, metrics);
        let processor = exporter.other_end(|exporter| BatchSpanProcessor::new(exporter, config));
        let resource = Resource::builder_empty()
            .with_attributes([
                KeyValue::new("service.name", service),
                KeyValue::new("service.version", version),
            ])
            .with_detector(Box::new(TelemetryResourceDetector))
            .with_detector(Box::new(EnvResourceDetector::new()))
            .build();
        let provider = SdkTracerProvider::builder()
            .with_span_processor(processor)
            .with_sampler(Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(ratio))))
            .with_resource(resource)
            .build();
        Ok(Self(provider))
    }

    /// Returns the source of the spans that are sent.
    pub fn traces(&self) -> Traces {
        Traces(Some(self.0.tracer("petstore")))
    }

    /// Sends the queued spans, for at most a second, and stops. Blocks the thread.
    pub fn stop(self) {
        if let Err(error) = self.0.shutdown_with_timeout(Duration::from_secs(1)) {
            tracing::debug!(%error, "the last spans were not sent");
        }
    }
}

/// Address of the gRPC port of an OTLP receiver, such as an OpenTelemetry collector beside the service:
/// `http://HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtlpEndpoint(String);

impl FromStr for OtlpEndpoint {
    type Err = &'static str;

    fn from_str(written: &str) -> Result<Self, Self::Err> {
        let uri = written.parse::<Uri>().unwrap_or_default();
        let authority = uri.authority().map(http::uri::Authority::as_str).unwrap_or_default();
        let is_plain = uri.path_and_query().is_none_or(|path| path == "/");
        if uri.scheme_str() == Some("http") && !authority.is_empty() && !authority.contains('@') && is_plain {
            Ok(Self(written.to_owned()))
        } else {
            Err("must be the gRPC port of an OTLP receiver, such as http://127.0.0.1:4317, without user and \
                 path")
        }
    }
}

crate::metrics! {
    /// Span counters. Clones share them.
    #[derive(Clone, Debug)]
    pub struct SpanMetrics(prefix) {
        spans: IntCounterVec = counters(
            &format!("{prefix}trace_spans_total"),
            "Spans sent, failed (refused by the receiver) or dropped (the queue was full).",
            &["outcome"],
        ),
    }
}

/// One end of the queue, which counts the spans that pass it. The SDK's own queue drops spans uncounted.
#[derive(Debug)]
struct Counted<T> {
    end: T,
    /// Spans in the queue or in flight.
    waiting: Arc<AtomicUsize>,
    metrics: SpanMetrics,
    /// `true` if the receiver did not accept the last message.
    is_away: AtomicBool,
}

impl<T> Counted<T> {
    fn new(end: T, metrics: &SpanMetrics) -> Self {
        let counted = Self { end, waiting: Arc::default(), metrics: metrics.clone(), is_away: false.into() };
        for outcome in ["sent", "failed", "dropped"] {
            counted.count(outcome, 0); // shown from the start
        }
        counted
    }

    /// Returns the other end, which shares the counts.
    fn other_end<P>(self, end: impl FnOnce(Self) -> P) -> Counted<P> {
        let (waiting, metrics) = (Arc::clone(&self.waiting), self.metrics.clone());
        Counted { end: end(self), waiting, metrics, is_away: false.into() }
    }

    fn count(&self, outcome: &str, spans: usize) {
        self.metrics.spans.with_label_values(&[outcome]).inc_by(spans as u64);
    }
}

impl<P: SpanProcessor> SpanProcessor for Counted<P> {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        let one_more = |waiting| (waiting < QUEUE).then_some(waiting + 1);
        if self.waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok() {
            self.end.on_end(span);
        } else {
            self.count("dropped", 1);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.end.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.end.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.end.set_resource(resource);
    }
}

impl<E: SpanExporter> SpanExporter for Counted<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len();
        let result = self.end.export(batch).await;
        self.waiting.fetch_sub(spans, Ordering::Relaxed);
        self.count(if result.is_ok() { "sent" } else { "failed" }, spans);
        // One line per change, not one per message.
        match (self.is_away.swap(result.is_err(), Ordering::Relaxed), &result) {
            (false, Err(error)) => tracing::warn!(%error, "the trace receiver does not accept spans"),
            (true, Ok(())) => tracing::info!("the trace receiver accepts spans again"),
            (false, Ok(())) | (true, Err(_)) => {}
        }
        result
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.end.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.end.set_resource(resource);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use opentelemetry::trace::{Tracer, TracerProvider};
    use opentelemetry_sdk::{error::OTelSdkError, trace::SdkTracerProvider};

    use super::*;

    #[test]
    fn an_endpoint_is_a_host_and_a_port_over_http() {
        for written in ["http://127.0.0.1:4317", "http://[::1]:4317/", "http://collector"] {
            assert_eq!(written.parse(), Ok(OtlpEndpoint(written.to_owned())));
        }
        for written in
            ["", "127.0.0.1:4317", "https://h:1", "http://", "http://u:p@h:1", "http://h:1/v1/traces", "h"]
        {
            assert!(written.parse::<OtlpEndpoint>().is_err(), "{written}");
        }
    }

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
        let (metrics, held) = (SpanMetrics::with_prefix(""), Held::default());
        let mut way_out = None;
        let queue = Counted::new(Picky, &metrics).other_end(|end| {
            way_out = Some(end);
            held.clone()
        });
        let way_out = way_out.unwrap();
        let provider = SdkTracerProvider::builder().with_span_processor(queue).build();
        let end = |spans: usize| (0..spans).for_each(|_| drop(provider.tracer("test").start("span")));
        let take = |spans: usize| held.0.lock().unwrap().drain(..spans).collect::<Vec<_>>();
        let counted =
            || ["sent", "failed", "dropped"].map(|outcome| metrics.spans.with_label_values(&[outcome]).get());

        end(QUEUE + 2);
        assert_eq!((held.0.lock().unwrap().len(), counted()), (QUEUE, [0, 0, 2]));
        way_out.export(take(1)).await.unwrap();
        assert_eq!(counted(), [1, 0, 2]);
        way_out.export(take(2)).await.unwrap_err();
        assert_eq!(counted(), [1, 2, 2]);
        end(4);
        assert_eq!((held.0.lock().unwrap().len(), counted()), (QUEUE, [1, 2, 3]));
    }
}
