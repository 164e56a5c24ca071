//! Levels of log lines.

use std::sync::{Arc, Mutex};

use tracing::{
    Event, Level, Metadata, Subscriber,
    span::{Attributes, Id, Record},
    subscriber::DefaultGuard,
};

/// Log of the current thread, from one module.
#[derive(Debug)]
pub struct Logged {
    lines: Lines,
    _guard: DefaultGuard,
}

#[derive(Clone, Debug)]
struct Lines {
    module: &'static str,
    levels: Arc<Mutex<Vec<Level>>>,
}

impl Logged {
    /// Collects the lines of the module until this is dropped.
    pub fn of(module: &'static str) -> Self {
        let lines = Lines { module, levels: Arc::default() };
        Self { _guard: tracing::subscriber::set_default(lines.clone()), lines }
    }

    /// Returns the levels of the lines since the last call.
    pub fn levels(&self) -> Vec<Level> {
        std::mem::take(&mut *self.lines.levels.lock().expect("no test panics with the lock"))
    }
}

impl Subscriber for Lines {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        if event.metadata().target().ends_with(self.module) {
            self.levels.lock().expect("no test panics with the lock").push(*event.metadata().level());
        }
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
