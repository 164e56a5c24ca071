//! Sending spans to a receiver, over OTLP (gRPC).
//!
//! Requests never wait for that. Spans that ended wait in a queue of [`QUEUE`] for a thread of their own;
//! what finds it full is dropped, and counted like what the receiver did not take.

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

/// The most spans that wait to be sent, those under way included: with 500 bytes each, a megabyte.
const QUEUE: usize = 2_048;
/// The most spans in one message.
const BATCH: usize = 512;
/// How long a span waits for others to be sent with.
const PACE: Duration = Duration::from_secs(1);
/// How long the receiver may take to accept a message.
const TIMEOUT: Duration = Duration::from_secs(3);
/// How long the last spans have at the end of the process.
const FAREWELL: Duration = Duration::from_secs(1);

/// Which requests are recorded, and where that goes.
#[derive(Clone, Debug)]
pub struct ExporterSettings {
    /// The receiver.
    pub endpoint: OtlpEndpoint,
    /// The part of the requests that is recorded, of those that belong to no trace yet: from 0 to 1.
    pub ratio: f64,
    /// The name of the service, `service.name`.
    pub service: &'static str,
    /// Its version, `service.version`.
    pub version: &'static str,
}

/// Sends spans until it is stopped.
pub struct Exporter(SdkTracerProvider);

impl Exporter {
    /// Starts sending; the receiver need not be there. Must be called inside a Tokio runtime. The variable
    /// `OTEL_RESOURCE_ATTRIBUTES` adds to how the service describes itself (OpenTelemetry's Resource SDK).
    ///
    /// # Errors
    ///
    /// The exporter cannot be made of this endpoint.
    pub fn start(settings: ExporterSettings, metrics: &SpanMetrics) -> Result<Self, ExporterBuildError> {
        let ExporterSettings { endpoint, ratio, service, version } = settings;
        let exporter = SpanExporter::builder()
            .with_tonic()
            .with_endpoint(endpoint.as_str())
            .with_timeout(TIMEOUT)
            .build()?;
        let config = BatchConfigBuilder::default()
            .with_max_queue_size(QUEUE)
            .with_max_export_batch_size(BATCH)
            .with_scheduled_delay(PACE)
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

    /// What records the spans that are sent.
    #[must_use]
    pub fn traces(&self) -> Traces {
        Traces(Some(self.0.tracer("petstore")))
    }

    /// Sends what waits, for a second at most, and then no more. It blocks the thread.
    pub fn stop(self) {
        if let Err(error) = self.0.shutdown_with_timeout(FAREWELL) {
            tracing::debug!(%error, "the last spans were not sent");
        }
    }
}

impl fmt::Debug for Exporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exporter").finish_non_exhaustive()
    }
}
