//! `petstore health`: readiness of a process, for the health checks of containers.

use std::{iter::once, str::FromStr, time::Duration};

use axum::{
    body::{Body, to_bytes},
    http::{StatusCode, Uri},
};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use petstore_command_line::{block_on, output::OutputSettings};
use petstore_settings::SecretUrl;
use serde_json::Value;
use tokio::time::timeout;

use crate::error::CliError;

/// Deadline of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
/// Upper bound of an answer, in bytes.
const MAX_ANSWER: usize = 64 * 1024;

#[derive(Debug, clap::Args)]
pub(crate) struct HealthSettings {
    /// URL of the process's admin port
    #[arg(long, env = "PETSTORE_ADMIN_URL", default_value = "http://127.0.0.1:9090", value_name = "URL")]
    #[arg(value_parser = SecretUrl::<AdminUrl>::default())]
    admin_url: AdminUrl,

    #[command(flatten)]
    output: OutputSettings,
}

/// URL of the form `http://HOST:PORT`.
#[derive(Clone, Debug)]
struct AdminUrl(String);

impl FromStr for AdminUrl {
    type Err = &'static str;

    fn from_str(written: &str) -> Result<Self, Self::Err> {
        const RIGHT: &str = "must be the URL of an admin port, such as http://127.0.0.1:9090";
        let url: Uri = written.parse().map_err(|_| RIGHT)?;
        let authority = url.authority().filter(|authority| authority.port().is_some()).ok_or(RIGHT)?;
        let is_plain =
            url.scheme_str() == Some("http") && matches!(url.path(), "" | "/") && url.query().is_none();
        let has_user = authority.as_str().contains('@');
        if is_plain && !has_user { Ok(Self(format!("http://{authority}"))) } else { Err(RIGHT) }
    }
}

/// Prints the answer of `/readyz`. Fails if the process is not ready or does not answer.
pub(crate) fn run(settings: &HealthSettings) -> Result<(), CliError> {
    let AdminUrl(url) = &settings.admin_url;
    let request = async { timeout(REQUEST_TIMEOUT, readiness(url)).await.ok().flatten() };
    let silent = || {
        let silent =
            format!("--admin-url: no admin port answers at {url} within 2 s; is the service running?");
        CliError::Failed(silent)
    };
    let (is_ready, readiness) = block_on("warn", Box::pin(async { request.await.ok_or_else(silent) }))?;
    settings.output.print(&readiness, text)?;
    if is_ready { Ok(()) } else { Err(CliError::Failed("the process is not ready for requests".to_owned())) }
}

/// Returns `true` if the process is ready for requests, and the answer of `/readyz`. Returns `None` if there
/// is no answer of an admin port.
async fn readiness(url: &str) -> Option<(bool, Value)> {
    let http: Client<_, Body> = Client::builder(TokioExecutor::new()).build_http();
    let response = http.get(format!("{url}/readyz").parse().ok()?).await.ok()?;
    let is_ready = response.status() == StatusCode::OK;
    let body = to_bytes(Body::new(response.into_body()), MAX_ANSWER).await.ok()?;
    let readiness = serde_json::from_slice::<Value>(&body).ok()?;
    readiness["parts"].is_object().then_some((is_ready, readiness))
}

/// Returns a line such as `degraded: core ok, database ok, limiter degraded`, and a line for each cause.
fn text(readiness: &Value) -> String {
    let word = |state: &Value| state.as_str().unwrap_or("unknown").to_owned();
    let parts = readiness["parts"].as_object().into_iter().flatten();
    let parts: Vec<_> = parts.map(|(name, state)| format!("{name} {}", word(state))).collect();
    let status = word(&readiness["status"]);
    let first = if parts.is_empty() { status } else { format!("{status}: {}", parts.join(", ")) };
    let causes = readiness["causes"].as_object().into_iter().flatten();
    let causes = causes.map(|(name, cause)| format!("{name}: {}", word(&cause["message"])));
    once(first).chain(causes).map(|line| line + "\n").collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn readiness_is_one_line_and_one_for_each_cause() {
        let parts = json!({ "core": "ok", "limiter": "degraded" });
        let mut degraded = json!({ "status": "degraded", "parts": parts });
        let line = "degraded: core ok, limiter degraded\n";
        assert_eq!(text(&degraded), line, "an older process gives no causes");
        degraded["causes"] = json!({ "limiter": { "cause": "redis_unreachable", "message": "It is." } });
        assert_eq!(text(&degraded), format!("{line}limiter: It is.\n"));
        assert_eq!(text(&json!({ "status": "down", "parts": {} })), "down\n");
    }

    #[test]
    fn an_admin_url_is_a_plain_host_and_port() {
        for right in ["http://127.0.0.1:9090", "http://[::1]:1/", "http://core.internal:9090"] {
            assert!(right.parse::<AdminUrl>().is_ok(), "{right}");
        }
        for wrong in ["127.0.0.1:9090", "https://a:1", "http://a", "http://a:1/x", "http://u:p@a:1", ""] {
            assert!(wrong.parse::<AdminUrl>().unwrap_err().contains("http://127.0.0.1:9090"), "{wrong}");
        }
    }
}
