//! Detection of idle connections that may be dead.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

/// Time of the last connection failure. The cause of that failure (a restart, a failover, an administrator)
/// probably cut all other connections too. Every connection that was last used before it is pinged before it
/// is used again, so that a retry does not get the next dead one.
#[derive(Debug)]
pub(super) struct StaleConnections {
    start: Instant,
    /// Milliseconds after `start`, rounded up; 0 for no failure.
    failed_at: AtomicU64,
}

impl StaleConnections {
    pub(super) fn new() -> Self {
        Self { start: Instant::now(), failed_at: AtomicU64::new(0) }
    }

    /// Records that a connection has failed just now.
    pub(super) fn record_failure(&self) {
        self.failed_at.fetch_max(self.elapsed_millis().saturating_add(1), Ordering::Relaxed);
    }

    /// Returns `true` if a connection that has been idle for `idle_for` was last used before the last
    /// failure.
    pub(super) fn include(&self, idle_for: Duration) -> bool {
        let idle = u64::try_from(idle_for.as_millis()).unwrap_or(u64::MAX);
        self.elapsed_millis().saturating_sub(idle) <= self.failed_at.load(Ordering::Relaxed)
            && self.failed_at.load(Ordering::Relaxed) > 0
    }

    fn elapsed_millis(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_connection_last_used_before_a_failure_is_stale() {
        let stale = StaleConnections {
            start: Instant::now().checked_sub(Duration::from_mins(1)).unwrap(),
            failed_at: AtomicU64::new(0),
        };
        assert!(!stale.include(Duration::from_secs(10)), "nothing has failed yet");
        stale.failed_at.store(30_000, Ordering::Relaxed);
        assert!(stale.include(Duration::from_secs(40)));
        assert!(!stale.include(Duration::from_secs(20)));
        stale.record_failure();
        assert!(stale.include(Duration::ZERO), "a failure of this millisecond");
    }
}
