//! Parts of a deployment, and their faults.

use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use petstore_testkit::{
    Installation, Server, eventually,
    faults::{Fault as NetworkFault, Proxy},
    history::{Interruption, InterruptionKind},
    load::Target,
    servers::{PostgresServer, RedisServer},
};
use tokio::time::{Instant, sleep};

use crate::storage::lock;

/// Time within which a process starts again, once its database is back.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// Number of processes that gateways had, so that each has a number of its own. The first two are known.
static PROCESSES: AtomicUsize = AtomicUsize::new(2);

/// Fault of a part, for some time.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    /// SIGKILL, and a start after the time.
    Killed,
    /// SIGTERM, for PostgreSQL an immediate stop, and a start after the time.
    Stopped,
    /// SIGSTOP, and SIGCONT after the time.
    Paused,
    /// Every connection is reset, once.
    Reset,
    /// Answers are late by this many milliseconds.
    Delayed(u64),
    /// The next answer is cut off after this many bytes.
    CutOff(u64),
    /// Connections are refused.
    Refused,
    /// No byte passes, and all of them arrive afterwards.
    Silent,
    /// Another process holds the lock for writing.
    Locked,
}

const OF_PROCESSES: [Fault; 3] = [Fault::Killed, Fault::Stopped, Fault::Paused];
const OF_POSTGRES: [Fault; 4] = [Fault::Killed, Fault::Stopped, Fault::Paused, Fault::Reset];
const OF_CONNECTIONS: [Fault; 8] = [
    Fault::Reset,
    Fault::Delayed(30),
    Fault::Delayed(200),
    Fault::Delayed(2_000),
    Fault::CutOff(0),
    Fault::CutOff(40),
    Fault::Refused,
    Fault::Silent,
];

pub(super) enum Part {
    Process(Process),
    Postgres(PostgresServer),
    Redis(RedisServer),
    Connection(Proxy),
    /// SQLite database.
    File(PathBuf),
}

impl Part {
    /// Returns the faults that it may have.
    pub(super) fn faults(&self) -> &'static [Fault] {
        match self {
            Self::Process(_) | Self::Redis(_) => &OF_PROCESSES,
            Self::Postgres(_) => &OF_POSTGRES,
            Self::Connection(_) => &OF_CONNECTIONS,
            Self::File(_) => &[Fault::Locked],
        }
    }

    /// Has one of its faults for this time, and is healed.
    pub(super) async fn suffer(&mut self, fault: Fault, time: Duration) {
        match self {
            Self::Process(process) => process.suffer(fault, time).await,
            Self::Postgres(postgres) => match fault {
                Fault::Paused => {
                    postgres.pause();
                    sleep(time).await;
                    postgres.resume();
                }
                Fault::Killed | Fault::Stopped => {
                    match fault {
                        Fault::Killed => postgres.kill9().await,
                        _ => postgres.stop_immediate().await,
                    }
                    sleep(time).await;
                    postgres.restart().await;
                }
                _ => drop(postgres.terminate_backends().await),
            },
            Self::Redis(redis) => match fault {
                Fault::Paused => {
                    redis.pause();
                    sleep(time).await;
                    redis.resume();
                }
                Fault::Killed => {
                    redis.kill9().await;
                    sleep(time).await;
                    redis.restart().await;
                }
                _ => redis.restart().await,
            },
            Self::Connection(proxy) => {
                let fault = match fault {
                    Fault::Delayed(by) => NetworkFault::delay_ms(by),
                    Fault::CutOff(response_bytes) => NetworkFault::CutOnce { response_bytes },
                    Fault::Refused => NetworkFault::Refuse,
                    Fault::Silent => NetworkFault::Blackhole,
                    _ => return proxy.reset_connections(),
                };
                proxy.set(fault).await;
                sleep(time).await;
                proxy.set(NetworkFault::None).await;
            }
            Self::File(file) => lock(file, time).await,
        }
    }
}

/// Process of the binary, which restarts on its addresses.
pub(super) struct Process {
    installation: Arc<Installation>,
    args: Vec<String>,
    server: Option<Server>,
    gateway: Option<(Target, Arc<Mutex<Vec<Interruption>>>)>,
}

impl Process {
    /// Starts the process. A gateway has a target, and a list of its interruptions.
    pub(super) async fn start(
        installation: &Arc<Installation>,
        args: &[&str],
        gateway: Option<(&Target, &Arc<Mutex<Vec<Interruption>>>)>,
    ) -> Self {
        let server = installation.start(args).await;
        server.ready().await;
        Self {
            installation: Arc::clone(installation),
            args: args.iter().map(|&arg| arg.to_owned()).collect(),
            server: Some(server),
            gateway: gateway.map(|(target, interruptions)| (target.clone(), Arc::clone(interruptions))),
        }
    }

    pub(super) fn server(&self) -> &Server {
        self.server.as_ref().expect("a running process")
    }

    pub(super) fn is_gateway(&self) -> bool {
        self.gateway.is_some()
    }

    async fn suffer(&mut self, fault: Fault, time: Duration) {
        let start = Instant::now();
        if matches!(fault, Fault::Paused) {
            self.server().signal("STOP").await;
            sleep(time).await;
            self.server().signal("CONT").await;
            return self.interrupted(InterruptionKind::Paused, start, &[]);
        }
        let server = self.server.take().expect("a running process");
        let kind = if matches!(fault, Fault::Killed) {
            server.crash().await;
            InterruptionKind::Killed
        } else {
            let exit = server.terminate().await;
            assert_eq!(exit.code, Some(0), "{exit:?}");
            InterruptionKind::Stopped
        };
        let before = self.gateway.as_ref().map(|(target, _)| {
            let before = target.process();
            target.set_process(PROCESSES.fetch_add(1, Ordering::Relaxed));
            before
        });
        sleep(time).await;
        let args: Vec<_> = self.args.iter().map(String::as_str).collect();
        let server = eventually(START_TIMEOUT, async || self.installation.try_start(&args).await).await;
        self.server = Some(server);
        self.interrupted(kind, start, before.as_slice());
    }

    /// Records an interruption of the present process until now, and of the one before.
    fn interrupted(&self, kind: InterruptionKind, start: Instant, before: &[usize]) {
        if let Some((target, interruptions)) = &self.gateway {
            let processes = before.iter().copied().chain([target.process()]);
            let until_now = processes.map(|process| Interruption::until_now(kind, process, start));
            interruptions.lock().unwrap().extend(until_now);
        }
    }
}
