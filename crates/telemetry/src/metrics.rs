//! Metrics, as Prometheus reads them.
//!
//! A part of the service creates its metrics when it is created and returns them as [`Collectors`]. The
//! process that runs the part shows them in an [`Exposition`]. Nothing is global, so that several services
//! can run in one process and each shows its own metrics.
//!
//! Names and labels are constants, and a label's values come from an enum: nothing from a request
//! becomes one. Names follow OpenTelemetry's semantic conventions where these have one, in the spelling
//! of Prometheus; all others begin with the prefix of the program.

use std::{
    collections::BTreeSet,
    fs, io,
    sync::{Arc, OnceLock},
};

use parking_lot::Mutex;
use petstore_clock::machine_time;
pub use prometheus::proto::{Bucket, LabelPair, MetricFamily};
use prometheus::{Counter, Gauge, HistogramOpts, Opts, Registry, TextEncoder, core::Desc};
pub use prometheus::{
    Histogram, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, core::Collector,
};

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
/// creates all of them, and `collectors()` returns them. A part that others use too names the `prefix` of all
/// names after its own: `struct Name(prefix)`, which `with_prefix()` creates.
#[macro_export]
macro_rules! metrics {
    ($(#[$about:meta])* $vis:vis struct $name:ident($prefix:ident) {
        $($field_vis:vis $field:ident: $kind:ty = $new:expr,)+
    }) => {
        $(#[$about])*
        $vis struct $name {
            $($field_vis $field: $kind,)+
        }

        impl $name {
            /// Creates the metrics, whose names begin with the prefix.
            $vis fn with_prefix($prefix: &str) -> Self {
                Self { $($field: $new,)+ }
            }

            /// Returns the metrics. They share their values with this struct.
            $vis fn collectors(&self) -> $crate::metrics::Collectors {
                vec![$(Box::new(self.$field.clone())),+]
            }
        }
    };
    ($(#[$about:meta])* $vis:vis struct $name:ident { $($fields:tt)+ }) => {
        $crate::metrics! { $(#[$about])* $vis struct $name(_prefix) { $($fields)+ } }

        impl Default for $name {
            fn default() -> Self {
                Self::with_prefix("")
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

/// Ticks of the kernel's clock per second: `USER_HZ`, which is 100 on every architecture that Rust's standard
/// library supports.
const TICKS: f64 = 100.0;

/// Returns CPU time, memory, open files and start time of this process. A value that cannot be read is 0.
pub fn process() -> Collectors {
    vec![
        Sampled::boxed(
            made(Counter::new("process_cpu_seconds_total", "Processor time used, in seconds.")),
            |used: &Counter| used.inc_by((cpu_time().unwrap_or_default() - used.get()).max(0.0)),
        ),
        sampled("process_resident_memory_bytes", "Memory in use, in bytes.", resident_memory),
        sampled("process_open_fds", "Open file descriptors.", open_files),
        sampled("process_max_fds", "Maximum number of open file descriptors.", most_files),
        start_time(),
    ]
}

/// Returns the start time by the machine's clock, taken at the first call. The kernel's value counts from the
/// machine's start, whose time is in `/proc/stat`, which systemd's `ProcSubset=pid` hides.
fn start_time() -> Box<dyn Collector> {
    static STARTED: OnceLock<f64> = OnceLock::new();
    let gauge = made(Gauge::new("process_start_time_seconds", "Start of the process, in Unix seconds."));
    gauge.set(*STARTED.get_or_init(|| machine_time().as_secs_f64()));
    Box::new(gauge)
}

fn sampled(name: &str, help: &str, read: fn() -> io::Result<f64>) -> Box<dyn Collector> {
    Sampled::boxed(made(Gauge::new(name, help)), move |gauge: &Gauge| gauge.set(read().unwrap_or_default()))
}

/// Returns the resident memory, from a line such as `VmRSS:    1234 kB`.
fn resident_memory() -> io::Result<f64> {
    field(&fs::read_to_string("/proc/self/status")?, "VmRSS:").map(|kibibytes| kibibytes * 1_024.0)
}

#[expect(clippy::cast_precision_loss, reason = "the kernel allows far fewer than 2⁵³ files")]
fn open_files() -> io::Result<f64> {
    // The folder itself is open while it is read.
    Ok(fs::read_dir("/proc/self/fd")?.count().saturating_sub(1) as f64)
}

/// Returns the first number of `Max open files            1024                 524288               files`.
fn most_files() -> io::Result<f64> {
    field(&fs::read_to_string("/proc/self/limits")?, "Max open files")
}

/// Returns the CPU time in user mode and in the kernel, the fields 14 and 15 in `proc_pid_stat(5)`. The
/// second field, the program's name in parentheses, may hold anything.
fn cpu_time() -> io::Result<f64> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let from_third = stat.rsplit_once(')').map(|(_, rest)| rest).unwrap_or_default();
    let mut fields = from_third.split_whitespace().skip(14 - 3);
    Ok((number(fields.next())? + number(fields.next())?) / TICKS)
}

/// Returns the number after a name at the start of a line.
fn field(text: &str, name: &str) -> io::Result<f64> {
    number(text.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next()))
}

fn number(text: Option<&str>) -> io::Result<f64> {
    text.and_then(|text| text.parse().ok()).ok_or_else(|| io::ErrorKind::InvalidData.into())
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

    #[test]
    fn memory_and_files_are_those_of_a_running_program() {
        let memory = resident_memory().unwrap();
        assert!((1e6..1e10).contains(&memory), "{memory}");
        let before = open_files().unwrap();
        assert!(before >= 3.0 && before < most_files().unwrap(), "{before}");
    }

    #[test]
    fn processor_time_grows_with_work() {
        let before = cpu_time().unwrap();
        let started = std::time::Instant::now();
        while cpu_time().unwrap() <= before {
            assert!(started.elapsed().as_secs() < 60, "none was counted");
        }
    }

    #[test]
    fn the_start_time_is_recent_and_constant() {
        let shown = || start_time().collect()[0].get_metric()[0].get_gauge().get_value();
        let first = shown();
        let age = machine_time().as_secs_f64() - first;
        assert!((0.0..60.0).contains(&age), "{age}");
        assert!((shown() - first).abs() < f64::EPSILON, "{first}");
    }

    /// Tests that only files of processes are read. Under systemd's `ProcSubset=pid` `/proc` has no others.
    #[test]
    fn only_this_processs_kernel_files_are_read() {
        let code = include_str!("metrics.rs").split("#[cfg(test)]").next().unwrap_or_default();
        let read = code.matches("\"/proc/").count();
        assert_eq!((read, code.matches("\"/proc/self/").count()), (4, 4));
    }
}
