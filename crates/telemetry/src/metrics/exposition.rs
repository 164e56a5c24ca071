//! Exposition of metrics.

use std::{collections::BTreeSet, sync::Arc};

use parking_lot::Mutex;
use prometheus::{Registry, TextEncoder, core::Desc};

use super::Collectors;

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
    #[must_use]
    pub fn table(&self) -> String {
        let rows = self.rows.lock();
        let head = ["| Name | Type | Labels | Meaning |\n", "|---|---|---|---|\n"];
        head.into_iter().chain(rows.iter().map(String::as_str)).collect()
    }

    /// Returns all of them in Prometheus's text format, with their current values.
    #[must_use]
    pub fn text(&self) -> String {
        // An error would mean a metric without values, but those are left out before.
        TextEncoder::new().encode_to_string(&self.shown.gather()).unwrap_or_default()
    }
}

fn row(metric: &Desc) -> String {
    let Desc { fq_name: name, help, variable_labels: labels, .. } = metric;
    let kind = match name {
        name if name.ends_with("_total") => "counter",
        name if name.ends_with("_duration_seconds") => "histogram",
        _ => "gauge",
    };
    let labels: Vec<_> = labels.iter().map(|label| format!("`{label}`")).collect();
    format!("| `{name}` | {kind} | {} | {help} |\n", labels.join(", "))
}

#[cfg(test)]
mod tests {
    use super::super::{counter, counters, durations};
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
