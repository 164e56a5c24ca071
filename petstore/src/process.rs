//! Process of the service: its parts, and how they start and stop.

mod addresses;
mod admin;
mod first_secrets;
pub(crate) mod listener;
mod parts;
mod run;

use std::{io, net::SocketAddr, path::PathBuf, time::Duration};

use futures_util::future::{BoxFuture, select_all};
use petstore_command_line::RuntimeError;
use petstore_core::store::Store;
use petstore_database::OpenError;
use petstore_settings::{InvalidSetting, ProcessSettings};
use petstore_telemetry::{
    logs,
    metrics::{Exposition, gauges},
    traces::{Exporter, SpanMetrics, Traces},
};
use tokio::{
    sync::watch,
    task::{JoinHandle, spawn_blocking},
    time::{Instant, sleep, timeout_at},
};

pub use self::addresses::Addresses;
use self::{
    admin::{Health, Sources},
    first_secrets::FirstSecretError,
    listener::ConnectionLimits,
};
pub(crate) use self::{
    first_secrets::FirstSecret,
    run::{Reloads, run},
};

/// Prefix of the names of metrics.
const METRICS: &str = "petstore_";

/// Reason why a process of the service did not start, or failed.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// A setting cannot be used.
    #[error(transparent)]
    Setting(#[from] InvalidSetting),
    /// A port cannot be listened on.
    #[error("{setting}: cannot listen on {addr}: {reason}")]
    Listen {
        /// The flag that names the address.
        setting: &'static str,
        /// The address.
        addr: String,
        /// Error of the operating system.
        reason: String,
    },
    /// The store cannot be opened.
    #[error("--database-url: {0}")]
    Store(#[from] OpenError),
    /// The first API key or operator token of a new store cannot be created or written.
    #[error("cannot write the first {secret} to {}", file.display())]
    FirstSecret {
        /// Name of the secret.
        secret: &'static str,
        /// The file that it belongs in.
        file: PathBuf,
        /// Cause of the failure.
        source: FirstSecretError,
    },
    /// The asynchronous runtime, or the handling of signals, cannot be started.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// A part ended although nothing stopped it.
    #[error("{part} ended unexpectedly")]
    PartEnded {
        /// Name of the part.
        part: &'static str,
        /// Cause, if it failed.
        source: Option<io::Error>,
    },
    /// A second signal ended the process at once.
    #[error("stopped at once by a second signal; requests in flight were lost")]
    Interrupted,
}

/// Phases of a process, in their order. Each part of the process ends in one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// The listeners are bound; the parts are not ready.
    Starting,
    /// All parts serve.
    Serving,
    /// Readiness is down, so that load balancers stop sending requests; requests are still served.
    Draining,
    /// The REST port closes, after requests in flight are answered.
    ClosingHttp,
    /// The gRPC port closes. After the REST port, whose requests need it in a single process.
    ClosingGrpc,
    /// Background work ends, after the ports, because it keeps API keys up to date for the last requests.
    ClosingBackground,
    /// The admin port closes last, because it reports why the others do not serve.
    ClosingAdmin,
}

/// Time beyond the drain deadline that a part may take, so that it can cut off the rest by itself. Also the
/// time that a part may take if it has to end after the deadline.
const GRACE: Duration = Duration::from_millis(500);

/// Running process of the service. If it is dropped instead of stopped, its parts begin to end all at once,
/// in the background.
pub struct Process {
    /// Addresses of the ports, and files that the start has written.
    pub addresses: Addresses,
    phase: watch::Sender<Phase>,
    settings: ProcessSettings,
    connection_limits: ConnectionLimits,
    parts: Vec<Part>,
    /// Sources of the readiness. The store in it is closed at the end.
    sources: Sources,
    health: Health,
    /// Files that are read again on SIGHUP.
    reloads: Reloads,
    /// Metrics of the process.
    pub metrics: Exposition,
    /// Exporter of traces. It sends the last spans after everything else has ended.
    traces: Option<Exporter>,
}

/// Part that runs until the process reaches a phase.
struct Part {
    name: &'static str,
    ends_at: Phase,
    task: JoinHandle<io::Result<()>>,
}

/// Future that completes when a part has to end.
type End = BoxFuture<'static, ()>;

impl Process {
    /// Starts a process without parts: binds and serves its admin port, and traces requests under the name of
    /// the service if the settings have a receiver.
    pub(crate) async fn start(
        settings: &ProcessSettings,
        service: &'static str,
        reloads: Reloads,
    ) -> Result<(Self, Traces), ProcessError> {
        let (address, admin) = listener::bind_admin(settings).await?;
        let mut process = Self::new(settings, address, reloads);
        let spans = SpanMetrics::with_prefix(METRICS);
        process.metrics.add(spans.collectors());
        let traces = match &settings.otlp_endpoint {
            None => Traces::off(),
            Some(endpoint) => {
                let version = env!("CARGO_PKG_VERSION");
                let exporter = Exporter::start(endpoint, settings.trace_ratio, service, version, &spans)
                    .map_err(|error| InvalidSetting::new("--otlp-endpoint", error.to_string()))?;
                process.traces.insert(exporter).traces()
            }
        };
        process.serve_admin(admin);
        Ok((process, traces))
    }

    fn new(settings: &ProcessSettings, admin: SocketAddr, reloads: Reloads) -> Self {
        let (phase, metrics) = (watch::Sender::new(Phase::Starting), Exposition::default());
        let health = Health::new(phase.subscribe());
        let build = gauges("petstore_build_info", "The version of the program, as a label.", &["version"]);
        build.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
        for collectors in [
            petstore_telemetry::metrics::process(),
            vec![Box::new(build) as _],
            health.metrics(),
            logs::metrics(METRICS),
        ] {
            metrics.add(collectors);
        }
        Self {
            addresses: Addresses::new(admin),
            phase,
            settings: settings.clone(),
            connection_limits: ConnectionLimits::for_this_process(),
            parts: Vec::new(),
            sources: Sources::default(),
            health,
            reloads,
            metrics,
            traces: None,
        }
    }

    /// Runs a part until the process reaches the phase. The part gets a future that completes then.
    fn add(
        &mut self,
        name: &'static str,
        ends_at: Phase,
        part: impl FnOnce(End) -> BoxFuture<'static, io::Result<()>>,
    ) {
        let task = tokio::spawn(part(self.reached(ends_at)));
        self.parts.push(Part { name, ends_at, task });
    }

    /// Returns a future that completes when the process is in the phase, or past it.
    fn reached(&self, phase: Phase) -> End {
        let mut watch = self.phase.subscribe();
        // An error means that the process has ended, which is past every phase.
        Box::pin(async move { drop(watch.wait_for(|now| *now >= phase).await) })
    }

    /// Returns the store, for changes while the service runs. A gateway has none.
    pub fn store(&self) -> Option<&Store> {
        self.sources.store.as_ref()
    }

    /// Marks all parts as existing: from now on they decide the readiness.
    pub(crate) fn ready(&self) {
        self.connection_limits.log();
        self.health.set_sources(self.sources.clone());
        self.phase.send_replace(Phase::Serving);
    }

    /// Waits until a part ends by itself, which is a failure.
    async fn failed(&mut self) -> ProcessError {
        let (ended, at, _) = select_all(self.parts.iter_mut().map(|part| &mut part.task)).await;
        let part = self.parts.swap_remove(at); // it must not be awaited again
        ProcessError::PartEnded { part: part.name, source: ended.map_err(io::Error::other).flatten().err() }
    }

    /// Stops the process as SIGTERM does: readiness falls, the drain delay passes, the parts end one after
    /// the other within the drain deadline, and the store closes.
    pub async fn stop(mut self) {
        self.phase.send_replace(Phase::Draining);
        sleep(self.settings.drain_delay).await;

        let deadline = Instant::now() + self.settings.drain_deadline + GRACE;
        self.parts.sort_by_key(|part| part.ends_at);
        for Part { name, ends_at, mut task } in self.parts {
            self.phase.send_replace(ends_at);
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
            store.database().close().await; // takes 5 s at most
        }
        if let Some(traces) = self.traces {
            let _ = spawn_blocking(|| traces.stop()).await; // takes 1 s at most
        }
    }
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
        Process::new(
            &Flags::try_parse_from(flags).unwrap().settings,
            "127.0.0.1:1".parse().unwrap(),
            Reloads::default(),
        )
    }

    #[tokio::test]
    async fn the_parts_end_in_the_order_of_their_phases() {
        let mut process = process(&[]);
        let ended = Arc::new(Mutex::new(Vec::new()));
        for phase in [Phase::ClosingAdmin, Phase::ClosingGrpc, Phase::ClosingHttp, Phase::ClosingBackground] {
            let ended = Arc::clone(&ended);
            process.add("a part", phase, |end| {
                Box::pin(async move {
                    end.await;
                    ended.lock().unwrap().push(phase);
                    Ok(())
                })
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
        process.add("a part that hangs", Phase::ClosingHttp, |_| Box::pin(std::future::pending()));
        timeout_at(Instant::now() + Duration::from_secs(10), process.stop()).await.unwrap();
    }

    #[tokio::test]
    async fn a_component_that_ends_by_itself_or_panics_is_a_named_failure() {
        let mut process = process(&[]);
        process.add("the port", Phase::ClosingHttp, |_| {
            Box::pin(async { Err(io::Error::other("no more sockets")) })
        });
        let failure = process.failed().await;
        assert!(
            matches!(failure, ProcessError::PartEnded { part: "the port", source: Some(_) }),
            "{failure:?}"
        );
        process.stop().await;
    }

    #[tokio::test]
    async fn a_phase_is_reached_when_the_process_is_in_it_or_past_it() {
        let process = process(&[]);
        process.phase.send_replace(Phase::ClosingHttp);
        process.reached(Phase::Draining).await;
        process.reached(Phase::ClosingHttp).await;
        let mut next = process.reached(Phase::ClosingGrpc);
        assert!(timeout_at(Instant::now(), &mut next).await.is_err());
        drop(process);
        next.await; // a process that was dropped has reached every phase
    }
}
