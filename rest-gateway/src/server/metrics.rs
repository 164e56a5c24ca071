//! Metrics of connections.

use petstore_telemetry::metrics::{Collectors, IntCounter, IntGauge, counter, gauge};

/// Counters of a server's connections. Clones share them.
#[derive(Clone, Debug)]
pub struct ConnectionMetrics {
    open: IntGauge,
    accepted: IntCounter,
    refused: IntCounter,
}

/// Open connection in the gauge, until it is dropped.
#[derive(Debug)]
pub(super) struct OpenConnection(IntGauge);

impl Default for ConnectionMetrics {
    fn default() -> Self {
        Self {
            open: gauge("petstore_connections_open", "Connections to the REST port that are open."),
            accepted: counter("petstore_connections_accepted_total", "Connections to the REST port so far."),
            refused: counter(
                "petstore_connections_refused_total",
                "Connections to the REST port that were closed at once, because their address had too many.",
            ),
        }
    }
}

impl ConnectionMetrics {
    /// Returns the metrics.
    #[must_use]
    pub fn collectors(&self) -> Collectors {
        vec![Box::new(self.open.clone()), Box::new(self.accepted.clone()), Box::new(self.refused.clone())]
    }

    pub(super) fn accepted(&self) -> OpenConnection {
        self.accepted.inc();
        self.open.inc();
        OpenConnection(self.open.clone())
    }

    pub(super) fn refused(&self) {
        self.refused.inc();
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.dec();
    }
}
