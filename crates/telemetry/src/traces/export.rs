//! Export of spans to a receiver, over OTLP (gRPC).
//!
//! Requests never wait for the export. Spans that ended wait in a queue of [`QUEUE`] for a separate thread.
//! If the queue is full, a span is dropped, and counted like those that the receiver did not accept.

mod counted;
mod endpoint;

use std::{fmt, time::Duration};

use opentelemetry::{KeyValue, trace::TracerProvider};
use opentelemetry_otlp::{ExporterBuildError, SpanExporter, WithExportConfig};
use opentelemetry_sdk::{
    Resource,
    resource::{EnvResourceDetector, TelemetryResourceDetector},
    trace::{BatchConfigBuilder, BatchSpanProcessor, Sampler, SdkTracerProvider},
};

use self::counted::{CountedExporter, CountedProcessor};
pub use self::{
    counted::SpanMetrics,
    endpoint::{InvalidEndpoint, OtlpEndpoint},
};
use super::Traces;

/// Maximum number of spans that wait to be sent, including those in flight: about a megabyte.
const QUEUE: usize = 2_048;
/// Maximum number of spans in one message.
const BATCH: usize = 512;
/// Interval between two messages.
const SEND_INTERVAL: Duration = Duration::from_secs(1);
/// Time in which the receiver must accept a message.
const SEND_TIMEOUT: Duration = Duration::from_secs(3);
/// Time to send the last spans when the process ends.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// Settings of the span exporter.
#[derive(Clone, Debug)]
pub struct ExporterSettings {
    /// Address of the receiver.
    pub endpoint: OtlpEndpoint,
    /// Fraction, from 0 to 1, of the requests without an incoming trace that is recorded.
    pub ratio: f64,
    /// Name of the service, `service.name`.
    pub service: &'static str,
    /// Version of the service, `service.version`.
    pub version: &'static str,
}

/// Exporter that sends spans until it is stopped.
pub struct Exporter(SdkTracerProvider);

impl Exporter {
    /// Starts to send spans. The receiver may be down. Must be called inside a Tokio runtime. The variable
    /// `OTEL_RESOURCE_ATTRIBUTES` adds attributes of the service (OpenTelemetry's Resource SDK).
    ///
    /// # Errors
    ///
    /// If the exporter cannot be built for this endpoint.
    pub fn start(settings: ExporterSettings, metrics: &SpanMetrics) -> Result<Self, ExporterBuildError> {
        let ExporterSettings { endpoint, ratio, service, version } = settings;
        let exporter = SpanExporter::builder()
            .with_tonic()
            .with_endpoint(endpoint.as_str())
            .with_timeout(SEND_TIMEOUT)
            .build()?;
        let config = BatchConfigBuilder::default()
            .with_max_queue_size(QUEUE)
            .with_max_export_batch_size(BATCH)
            .with_scheduled_delay(SEND_INTERVAL)
            .build();
        let processor = CountedProcessor::new(QUEUE, metrics, |counts| {
            BatchSpanProcessor::new(CountedExporter::new(exporter, counts), config)
        });
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
    #[must_use]
    pub fn traces(&self) -> Traces {
        Traces(Some(self.0.tracer("petstore")))
    }

    /// Sends the queued spans, for at most a second, and stops. Blocks the thread.
    pub fn stop(self) {
        if let Err(error) = self.0.shutdown_with_timeout(SHUTDOWN_TIMEOUT) {
            tracing::debug!(%error, "the last spans were not sent");
        }
    }
}

impl fmt::Debug for Exporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exporter").finish_non_exhaustive()
    }
}
