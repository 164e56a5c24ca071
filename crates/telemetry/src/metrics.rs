//! Metrics, as Prometheus reads them.
//!
//! A part of the service creates its metrics when it is created and returns them as [`Collectors`]. The
//! process that runs the part shows them in an [`Exposition`]. Nothing is global, so that several services
//! can run in one process and each shows its own metrics.
//!
//! Names and labels are constants, and a label's values come from an enum: nothing from a request
//! becomes one. Names follow OpenTelemetry's semantic conventions where these have one, in the spelling
//! of Prometheus; all others begin with `petstore_`.

mod exposition;
mod process;

pub use prometheus::{
    Histogram, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, core::Collector,
};
use prometheus::{HistogramOpts, Opts, core::Desc, proto::MetricFamily};

pub use self::{exposition::Exposition, process::process};

/// Metrics of a part. Clones share their values.
pub type Collectors = Vec<Box<dyn Collector>>;

/// Upper bounds of the buckets of a duration, in seconds: from a cached answer to the longest deadline.
const DURATIONS: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0];

/// Returns a counter. Its name ends with `_total`.
#[must_use]
pub fn counter(name: &str, help: &str) -> IntCounter {
    made(IntCounter::new(name, help))
}

/// Returns counters, one per combination of labels. Their name ends with `_total`.
#[must_use]
pub fn counters(name: &str, help: &str, labels: &[&str]) -> IntCounterVec {
    made(IntCounterVec::new(Opts::new(name, help), labels))
}

/// Returns a gauge.
#[must_use]
pub fn gauge(name: &str, help: &str) -> IntGauge {
    made(IntGauge::new(name, help))
}

/// Returns gauges, one per combination of labels.
#[must_use]
pub fn gauges(name: &str, help: &str, labels: &[&str]) -> IntGaugeVec {
    made(IntGaugeVec::new(Opts::new(name, help), labels))
}

/// Returns histograms of durations in seconds, one per combination of labels. Their name ends with
/// `_duration_seconds`.
#[must_use]
pub fn durations(name: &str, help: &str, labels: &[&str]) -> HistogramVec {
    made(HistogramVec::new(HistogramOpts::new(name, help).buckets(DURATIONS.to_vec()), labels))
}

/// One more in a gauge, until it is dropped.
#[derive(Debug)]
pub struct GaugeGuard(IntGauge);

impl GaugeGuard {
    /// Adds one to the gauge.
    #[must_use]
    pub fn new(gauge: &IntGauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for GaugeGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// Declares the metrics of a part as a struct, each field with the function that creates it. `default()`
/// creates all of them, and `collectors()` returns them.
#[macro_export]
macro_rules! metrics {
    ($(#[$about:meta])* $vis:vis struct $name:ident {
        $($field_vis:vis $field:ident: $kind:ty = $new:expr,)+
    }) => {
        $(#[$about])*
        $vis struct $name {
            $($field_vis $field: $kind,)+
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $new,)+ }
            }
        }

        impl $name {
            /// Returns the metrics. They share their values with this struct.
            #[must_use]
            $vis fn collectors(&self) -> $crate::metrics::Collectors {
                vec![$(Box::new(self.$field.clone())),+]
            }
        }
    };
}

#[expect(
    clippy::expect_used,
    reason = "names and labels are constants, and every test of the service makes all of them"
)]
fn made<T>(metric: prometheus::Result<T>) -> T {
    metric.expect("a metric with a name that Prometheus allows")
}

/// Metric whose value is set just before it is shown.
#[derive(Debug)]
pub struct Sampled<M, S> {
    metric: M,
    sample: S,
}

impl<M, S> Sampled<M, S>
where
    M: Collector + 'static,
    S: Fn(&M) + Send + Sync + 'static,
{
    /// Returns the metric with the function that sets its value. The function must not wait for anything.
    pub fn boxed(metric: M, sample: S) -> Box<dyn Collector> {
        Box::new(Self { metric, sample })
    }
}

impl<M: Collector, S: Fn(&M) + Send + Sync> Collector for Sampled<M, S> {
    fn desc(&self) -> Vec<&Desc> {
        self.metric.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        (self.sample)(&self.metric);
        self.metric.collect()
    }
}
