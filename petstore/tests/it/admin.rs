//! Operators: commands, the admin API, the console, and explanations of refusals.

mod account_usage;
mod api;
mod check;
mod command_line;
mod commands;
mod console;
mod keys;
mod limits;
mod refusals;
mod remote_commands;
mod usage;

use std::time::Duration;

use petstore_clock::Clock;
use petstore_testkit::{Exit, Installation, Server};
use serde_json::Value;

use crate::{PORTS, petstore};

/// File with the token of the first operator of a fresh store.
const FIRST_TOKEN: &str = "data/first-operator-token";

/// Timeout of reports, which gateways send every few seconds.
const REPORT_TIMEOUT: Duration = Duration::from_mins(1);

/// Waits for the next UTC day if this one ends too soon for a test whose requests are counted in real time.
async fn begin_within_one_day() {
    const DAY_SECS: u64 = 86_400;
    let left = Duration::from_secs(DAY_SECS - Clock::system().now().as_secs() % DAY_SECS);
    if left < Duration::from_mins(3) {
        tokio::time::sleep(left).await;
    }
}

/// Service, and a machine without its store, on which an operator has a token.
struct TwoMachines {
    service: Installation,
    server: Server,
    desk: Installation,
    core_url: String,
}

impl TwoMachines {
    async fn start() -> Self {
        let service = petstore();
        let server = service.start(&PORTS).await;
        let core_url = format!("http://{}", server.address("gRPC"));
        let desk = petstore();
        desk.write_secret("token", &service.read(FIRST_TOKEN));
        Self { service, server, desk, core_url }
    }

    /// Runs a command on the operator's machine.
    async fn run(&self, args: &[&str]) -> Exit {
        self.run_with("token", args).await
    }

    async fn run_with(&self, token_file: &str, args: &[&str]) -> Exit {
        let target = ["--core-url", &self.core_url, "--operator-token-file", token_file];
        self.desk.run(&[args, &target].concat()).await
    }

    async fn json(&self, args: &[&str]) -> Value {
        self.run(&[args, &["--output", "json"]].concat()).await.json()
    }
}
