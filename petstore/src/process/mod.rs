//! Process of the service: its parts, and how they start and stop.

mod admin;
mod core_transport;
mod error;
pub(crate) mod first_secrets;
mod lifecycle;
pub(crate) mod listener;
mod parts;
mod readiness;
mod reload;
mod rlimits;
mod run;
pub(crate) mod signals;
pub(crate) mod startup_banner;
mod store_disk;

use std::{future::poll_fn, io, pin::Pin, task::Poll, time::Duration};

use petstore_telemetry::{
    logs,
    metrics::{Collector, Exposition, gauges},
    traces::{Exporter, SpanMetrics},
};
use tokio::{
    task::{JoinHandle, spawn_blocking},
    time::{Instant, sleep, timeout_at},
};

pub(crate) use self::admin::{AdminPortClient, AdminPortError, AdminUrlSettings};
pub(crate) use self::error::ProcessError;
pub use self::error::StartError;
pub(crate) use self::run::run;
use self::{
    admin::Health,
    lifecycle::{Lifecycle, Phase},
    readiness::Sources,
    reload::Reloads,
    rlimits::ConnectionLimits,
};
use crate::settings::{HostName, ProcessSettings};

/// Time beyond the drain deadline that a part may take, so that it can cut off its remaining work. Also the
/// time that a part may take if it has to end after the deadline.
const GRACE: Duration = Duration::from_millis(500);

/// Running parts of a process. When it is dropped, every part ends.
#[derive(Debug)]
pub(crate) struct Process {
    lifecycle: Lifecycle,
    drain_delay: Duration,
    drain_deadline: Duration,
    connection_limits: ConnectionLimits,
    parts: Vec<Part>,
    /// Sources of the readiness. The store in it is closed at the end.
    sources: Sources,
    health: Health,
    /// Host names under which the admin port answers.
    admin_hosts: Vec<HostName>,
    /// Files that are read again on SIGHUP.
    reloads: Reloads,
    metrics: Exposition,
    spans: SpanMetrics,
    /// Exporter of traces. It sends the last spans after everything else has ended.
    traces: Option<Exporter>,
}

/// Part that runs until the process reaches a phase.
#[derive(Debug)]
struct Part {
    name: &'static str,
    ends_at: Phase,
    task: JoinHandle<io::Result<()>>,
}

/// Future that completes when a part has to end.
type End = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Process {
    /// Creates a process that is starting, without parts.
    pub(crate) fn new(settings: &ProcessSettings) -> Self {
        let lifecycle = Lifecycle::new();
        let metrics = Exposition::default();
        metrics.add(petstore_telemetry::metrics::process());
        metrics.add(vec![build_info()]);
        let health = Health::new(lifecycle.watch());
        metrics.add(health.metrics());
        metrics.add(logs::metrics());
        let spans = SpanMetrics::default();
        metrics.add(spans.collectors());
        Self {
            health,
            lifecycle,
            drain_delay: settings.drain_delay,
            drain_deadline: settings.drain_deadline,
            connection_limits: ConnectionLimits::for_this_process(),
            parts: Vec::new(),
            sources: Sources::default(),
            admin_hosts: settings.admin_host.clone(),
            reloads: Reloads::default(),
            metrics,
            spans,
            traces: None,
        }
    }

    /// Runs a part until the process reaches the phase. The part gets a future that completes then.
    fn add<F>(&mut self, name: &'static str, ends_at: Phase, part: impl FnOnce(End) -> F)
    where
        F: Future<Output = io::Result<()>> + Send + 'static,
    {
        let task = tokio::spawn(part(Box::pin(self.lifecycle.watch().reached(ends_at))));
        self.parts.push(Part { name, ends_at, task });
    }

    pub(crate) fn metrics(&self) -> &Exposition {
        &self.metrics
    }

    /// Marks all parts as existing: from now on they decide the readiness.
    pub(crate) fn ready(&self) {
        self.connection_limits.log();
        self.health.set_sources(self.sources.clone());
        self.lifecycle.enter(Phase::Serving);
    }

    /// Reads certificates and tokens again. If one cannot be used, this is logged and the old one stays.
    async fn reload(&self) {
        self.reloads.run().await;
    }

    /// Waits until a part ends without shutdown, which is a failure.
    async fn failed(&mut self) -> ProcessError {
        let (at, ended) = poll_fn(|context| {
            for (at, part) in self.parts.iter_mut().enumerate() {
                if let Poll::Ready(ended) = Pin::new(&mut part.task).poll(context) {
                    return Poll::Ready((at, ended));
                }
            }
            Poll::Pending
        })
        .await;
        let part = self.parts.swap_remove(at); // it must not be awaited again
        ProcessError::PartEnded { part: part.name, source: ended.map_err(io::Error::other).flatten().err() }
    }

    /// Shuts the process down: readiness falls, the drain delay passes, the parts end one after the other
    /// within the drain deadline, and the store closes.
    pub(crate) async fn stop(mut self) {
        self.lifecycle.enter(Phase::Draining);
        sleep(self.drain_delay).await;

        let deadline = Instant::now() + self.drain_deadline + GRACE;
        self.parts.sort_by_key(|part| part.ends_at);
        for Part { name, ends_at, mut task } in self.parts {
            self.lifecycle.enter(ends_at);
            match timeout_at(deadline.max(Instant::now() + GRACE), &mut task).await {
                Ok(Ok(Ok(()))) => tracing::debug!(part = name, "ended"),
                Ok(Ok(Err(error))) => tracing::warn!(part = name, %error, "ended with an error"),
                Ok(Err(_)) => tracing::error!(part = name, "ended in a panic"),
                Err(_) => {
                    task.abort();
                    tracing::warn!(part = name, "cut off at the drain deadline");
                }
            }
        }
        if let Some(store) = self.sources.store {
            store.close().await; // takes 5 s at most
        }
        if let Some(traces) = self.traces {
            let _ = spawn_blocking(|| traces.stop()).await; // takes 1 s at most
        }
    }
}

/// Returns the metric that has the running version as a label and is always 1.
fn build_info() -> Box<dyn Collector> {
    let info = gauges("petstore_build_info", "The version of the program, as a label.", &["version"]);
    info.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
    Box::new(info)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use clap::Parser;

    use super::*;

    fn process(flags: &[&str]) -> Process {
        #[derive(Parser)]
        #[command(no_binary_name = true)]
        struct Flags {
            #[command(flatten)]
            settings: ProcessSettings,
        }
        Process::new(&Flags::try_parse_from(flags).unwrap().settings)
    }

    #[tokio::test]
    async fn the_parts_end_in_the_order_of_their_phases() {
        let mut process = process(&[]);
        let ended = Arc::new(Mutex::new(Vec::new()));
        for phase in [Phase::ClosingAdmin, Phase::ClosingGrpc, Phase::ClosingHttp, Phase::ClosingBackground] {
            let ended = Arc::clone(&ended);
            process.add("a part", phase, async move |end| {
                end.await;
                ended.lock().unwrap().push(phase);
                Ok(())
            });
        }
        process.stop().await;
        assert_eq!(
            *ended.lock().unwrap(),
            [Phase::ClosingHttp, Phase::ClosingGrpc, Phase::ClosingBackground, Phase::ClosingAdmin]
        );
    }

    #[tokio::test]
    async fn a_component_that_does_not_end_is_cut_off_at_the_drain_deadline() {
        let mut process = process(&["--drain-deadline", "1ms"]);
        process.add("a part that hangs", Phase::ClosingHttp, |_| std::future::pending());
        timeout_at(Instant::now() + Duration::from_secs(10), process.stop()).await.unwrap();
    }

    #[tokio::test]
    async fn a_component_that_ends_by_itself_or_panics_is_a_named_failure() {
        let mut process = process(&[]);
        process.add("the port", Phase::ClosingHttp, async |_| Err(io::Error::other("no more sockets")));
        let failure = process.failed().await;
        assert!(
            matches!(failure, ProcessError::PartEnded { part: "the port", source: Some(_) }),
            "{failure:?}"
        );
        process.stop().await;
    }
}
