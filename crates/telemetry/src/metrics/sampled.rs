//! Metrics whose values are read when they are shown.

use prometheus::{
    core::{Collector, Desc},
    proto::MetricFamily,
};

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

impl<M, S> std::fmt::Debug for Sampled<M, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sampled").finish_non_exhaustive()
    }
}
