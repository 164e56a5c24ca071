//! Export of spans to a receiver, over OTLP (gRPC).
//!
//! Requests never wait for the export. Spans that ended wait in a queue of [`QUEUE`] for a separate thread.
//! If the queue is full, a span is dropped, and counted like those that the receiver did not accept.

mod counted;

use std::{str::FromStr, time::Duration};

use http::Uri;
use opentelemetry::{KeyValue, trace::TracerProvider};
use opentelemetry_otlp::{ExporterBuildError, SpanExporter, WithExportConfig};
use opentelemetry_sdk::{
    Resource,
    resource::{EnvResourceDetector, TelemetryResourceDetector},
    trace::{BatchConfigBuilder, BatchSpanProcessor, Sampler, SdkTracerProvider},
};

pub use self::counted::SpanMetrics;
use self::counted::{CountedExporter, CountedProcessor};
use super::Traces;

/// Maximum number of spans that wait to be sent, including those in flight: about a megabyte.
const QUEUE: usize = 2_048;

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
#[derive(Debug)]
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
            .with_timeout(Duration::from_secs(3))
            .build()?;
        let config = BatchConfigBuilder::default()
            .with_max_queue_size(QUEUE)
            .with_max_export_batch_size(512)
            .with_scheduled_delay(Duration::from_secs(1))
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

impl OtlpEndpoint {
    /// Returns the address as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_a_host_and_a_port_over_http() {
        for written in ["http://127.0.0.1:4317", "http://[::1]:4317/", "http://collector"] {
            assert_eq!(written.parse::<OtlpEndpoint>().unwrap().as_str(), written);
        }
        for written in
            ["", "127.0.0.1:4317", "https://h:1", "http://", "http://u:p@h:1", "http://h:1/v1/traces", "h"]
        {
            assert!(written.parse::<OtlpEndpoint>().is_err(), "{written}");
        }
    }
}
