//! `petstore health`: readiness of a process, for the health checks of containers.

use serde_json::Value;
use tokio::runtime;

use crate::{
    error::CliError,
    output::OutputSettings,
    process::{AdminPortClient, AdminUrlSettings},
};

#[derive(Debug, clap::Args)]
pub(crate) struct HealthSettings {
    #[command(flatten)]
    admin_port: AdminUrlSettings,

    #[command(flatten)]
    output: OutputSettings,
}

/// Prints the answer of `/readyz`. Fails if the process is not ready or does not answer.
pub(crate) fn run(settings: &HealthSettings) -> Result<(), CliError> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build().map_err(CliError::runtime)?;
    let client = AdminPortClient::new(&settings.admin_port.admin_url);
    let (is_ready, readiness) = runtime.block_on(client.readiness())?;
    settings.output.print(|| text(&readiness), || readiness.clone())?;
    if is_ready { Ok(()) } else { Err(CliError::NotReady) }
}

/// Returns a text such as `ok: core ok, database ok, limiter degraded`.
fn text(readiness: &Value) -> String {
    let word = |state: &Value| state.as_str().unwrap_or("unknown").to_owned();
    let parts = readiness["parts"].as_object().into_iter().flatten();
    let parts: Vec<_> = parts.map(|(name, state)| format!("{name} {}", word(state))).collect();
    let status = word(&readiness["status"]);
    if parts.is_empty() { status + "\n" } else { format!("{status}: {}\n", parts.join(", ")) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn readiness_is_one_line() {
        let parts = json!({ "core": "ok", "limiter": "degraded" });
        let degraded = json!({ "status": "degraded", "parts": parts });
        assert_eq!(text(&degraded), "degraded: core ok, limiter degraded\n");
        assert_eq!(text(&json!({ "status": "down", "parts": {} })), "down\n");
    }
}
