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
    target: Mutex<SocketAddr>,
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
            target: Mutex::new(target),
            accepted: AtomicU64::new(0),
            cut: AtomicU64::new(0),
        }
    }

    pub(super) fn set(&self, fault: Fault) {
        self.setting.send_modify(|setting| *setting = Setting { fault, number: setting.number + 1 });
    }

    pub(super) fn target(&self) -> SocketAddr {
        *self.target.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_target(&self, target: SocketAddr) {
        *self.target.lock().unwrap_or_else(PoisonError::into_inner) = target;
    }

    /// Returns `true` if a connection is cut at the end of this setting's bytes.
    pub(super) fn cuts(&self, reached: Setting) -> bool {
        let is_cut = match reached.fault {
            Fault::Cut { .. } => true,
            // Only one connection finds the setting unchanged.
            _ => self.setting.send_if_modified(|setting| {
                let is_first = setting.number == reached.number;
                if is_first {
                    *setting = Setting { fault: Fault::None, number: setting.number + 1 };
                }
                is_first
            }),
        };
        self.cut.fetch_add(u64::from(is_cut), Ordering::Relaxed);
        is_cut
    }
}
