//! State that the proxy and its connections share.

use std::{
    net::SocketAddr,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::sync::watch;

use super::Fault;

/// Fault, and the number of faults set before it: a fault that is set twice is two faults.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    pub(super) fault: Fault,
    pub(super) number: u64,
}

/// Shared state of the test and the connections.
#[derive(Debug)]
pub(super) struct Control {
    pub(super) setting: watch::Sender<Setting>,
    /// Counter whose change resets all connections.
    pub(super) resets: watch::Sender<u64>,
    /// Targets of new connections, in turn; the first is next.
    targets: Mutex<Vec<SocketAddr>>,
    /// Number of accepted connections.
    pub(super) accepted: AtomicU64,
    /// Number of cut connections.
    pub(super) cut: AtomicU64,
}

impl Control {
    /// Creates the state without a fault, in front of the target.
    pub(super) fn new(target: SocketAddr) -> Self {
        Self {
            setting: watch::Sender::new(Setting { fault: Fault::None, number: 0 }),
            resets: watch::Sender::new(0),
            targets: Mutex::new(vec![target]),
            accepted: AtomicU64::new(0),
            cut: AtomicU64::new(0),
        }
    }

    pub(super) fn set(&self, fault: Fault) {
        self.setting.send_modify(|setting| *setting = Setting { fault, number: setting.number + 1 });
    }

    /// Returns the target of the next connection.
    pub(super) fn next_target(&self) -> Option<SocketAddr> {
        let mut targets = self.targets.lock().unwrap_or_else(PoisonError::into_inner);
        targets.rotate_left(1);
        targets.last().copied()
    }

    /// Replaces the targets. If they are the same ones, their turns continue.
    pub(super) fn set_targets(&self, new: &[SocketAddr]) {
        let mut targets = self.targets.lock().unwrap_or_else(PoisonError::into_inner);
        if targets.len() != new.len() || !new.iter().all(|target| targets.contains(target)) {
            *targets = new.to_vec();
        }
    }

    /// Returns `true` if a connection is cut at the end of this setting's bytes. Only one finds it unchanged.
    pub(super) fn cuts(&self, reached: Setting) -> bool {
        let is_cut = self.setting.send_if_modified(|setting| {
            let is_first = setting.number == reached.number;
            if is_first {
                *setting = Setting { fault: Fault::None, number: setting.number + 1 };
            }
            is_first
        });
        self.cut.fetch_add(u64::from(is_cut), Ordering::Relaxed);
        is_cut
    }
}
