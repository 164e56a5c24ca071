//! Metrics, as Prometheus reads them.
//!
//! A part of the service creates its metrics when it is created and returns them as [`Collectors`]. The
//! process that runs the part shows them in an [`Exposition`]. Nothing is global, so that several services
//! can run in one process and each shows its own metrics.
//!
//! Names and labels are constants, and a label's values come from an enum: nothing from a request
//! becomes one. Names follow OpenTelemetry's semantic conventions where these have one, in the spelling
//! of Prometheus; all others begin with `petstore_`.

mod process;

use std::{collections::BTreeSet, sync::Arc};

use parking_lot::Mutex;
pub use prometheus::proto::{Bucket, LabelPair, MetricFamily};
pub use prometheus::{
    Histogram, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, core::Collector,
};
use prometheus::{HistogramOpts, Opts, Registry, TextEncoder, core::Desc};

pub use self::process::process;

/// Metrics of a part. Clones share their values.
pub type Collectors = Vec<Box<dyn Collector>>;

/// Upper bounds of the buckets of a duration, in seconds: from a cached answer to the longest deadline.
const DURATIONS: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0];

/// Returns a counter. Its name ends with `_total`.
pub fn counter(name: &str, help: &str) -> IntCounter {
    made(IntCounter::new(name, help))
}

/// Returns counters, one per combination of labels. Their name ends with `_total`.
pub fn counters(name: &str, help: &str, labels: &[&str]) -> IntCounterVec {
    made(IntCounterVec::new(Opts::new(name, help), labels))
}

/// Returns a gauge.
pub fn gauge(name: &str, help: &str) -> IntGauge {
    made(IntGauge::new(name, help))
}

/// Returns gauges, one per combination of labels.
pub fn gauges(name: &str, help: &str, labels: &[&str]) -> IntGaugeVec {
    made(IntGaugeVec::new(Opts::new(name, help), labels))
}

/// Returns histograms of durations in seconds, one per combination of labels. Their name ends with
/// `_duration_seconds` or `_delay_seconds`.
pub fn durations(name: &str, help: &str, labels: &[&str]) -> HistogramVec {
    made(HistogramVec::new(HistogramOpts::new(name, help).buckets(DURATIONS.to_vec()), labels))
}

/// One more in a gauge, until it is dropped.
#[derive(Debug)]
pub struct GaugeGuard(IntGauge);

impl GaugeGuard {
    /// Adds one to the gauge.
    pub fn new(gauge: &IntGauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }

    /// Returns `true` if nothing else adds to the gauge now.
    pub fn is_alone(&self) -> bool {
        self.0.get() == 1
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

/// Metrics that are shown together. Clones show the same metrics.
#[derive(Clone, Debug, Default)]
pub struct Exposition {
    shown: Registry,
    /// Row of the table for each metric.
    rows: Arc<Mutex<BTreeSet<String>>>,
}

impl Exposition {
    /// Media type of [`Self::text`].
    pub const MEDIA_TYPE: &str = prometheus::TEXT_FORMAT;

    /// Adds metrics.
    ///
    /// # Panics
    ///
    /// If a metric of the same name was added before.
    pub fn add(&self, metrics: Collectors) {
        for metric in metrics {
            self.rows.lock().extend(metric.desc().into_iter().map(row));
            #[expect(
                clippy::expect_used,
                reason = "happens while a process starts, and in every test that starts one"
            )]
            self.shown.register(metric).expect("metrics have different names");
        }
    }

    /// Returns the metrics as a table in Markdown: name, type, labels and meaning.
    pub fn table(&self) -> String {
        let rows = self.rows.lock();
        let head = ["| Name | Type | Labels | Meaning |\n", "|---|---|---|---|\n"];
        head.into_iter().chain(rows.iter().map(String::as_str)).collect()
    }

    /// Returns all of them in Prometheus's text format, with their current values.
    pub fn text(&self) -> String {
        // An error would mean a metric without values, but those are left out before.
        TextEncoder::new().encode_to_string(&self.shown.gather()).unwrap_or_default()
    }
}

fn row(metric: &Desc) -> String {
    let Desc { fq_name: name, help, variable_labels: labels, .. } = metric;
    let kind = match name {
        name if name.ends_with("_total") => "counter",
        name if name.ends_with("_duration_seconds") || name.ends_with("_delay_seconds") => "histogram",
        _ => "gauge",
    };
    let labels: Vec<_> = labels.iter().map(|label| format!("`{label}`")).collect();
    format!("| `{name}` | {kind} | {} | {help} |\n", labels.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_a_component_are_shown() {
        let exposition = Exposition::default();
        let refused = counters("petstore_refused_total", "Refused.", &["reason"]);
        exposition.add(vec![Box::new(refused.clone())]);
        assert_eq!(exposition.text(), "");
        refused.with_label_values(&["a \"b\"\n"]).inc();
        assert_eq!(
            exposition.text(),
            "# HELP petstore_refused_total Refused.\n\
             # TYPE petstore_refused_total counter\n\
             petstore_refused_total{reason=\"a \\\"b\\\"\\n\"} 1\n"
        );
    }

    #[test]
    fn a_duration_falls_into_the_bucket_of_its_seconds() {
        let exposition = Exposition::default();
        let took = durations("http_server_request_duration_seconds", "Took.", &[]);
        exposition.add(vec![Box::new(took.clone())]);
        took.with_label_values::<&str>(&[]).observe(0.02);
        let text = exposition.text();
        assert!(
            text.contains("_bucket{le=\"0.01\"} 0\n") && text.contains("_bucket{le=\"0.025\"} 1\n"),
            "{text}"
        );
    }

    #[test]
    fn the_table_has_a_row_for_each_metric_from_the_start() {
        let exposition = Exposition::default();
        exposition.add(vec![
            Box::new(durations("b_duration_seconds", "Took.", &["x", "y"])),
            Box::new(counter("a_total", "A.")),
        ]);
        assert_eq!(
            exposition.table(),
            "| Name | Type | Labels | Meaning |\n|---|---|---|---|\n\
             | `a_total` | counter |  | A. |\n\
             | `b_duration_seconds` | histogram | `x`, `y` | Took. |\n"
        );
    }

    #[test]
    #[should_panic(expected = "metrics have different names")]
    fn a_metric_is_not_shown_twice() {
        let exposition = Exposition::default();
        exposition.add(vec![Box::new(counter("a_total", "A.")), Box::new(counter("a_total", "A."))]);
    }
}
