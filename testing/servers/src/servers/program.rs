//! Client programs of the servers, run to their end.

use std::process::Stdio;

use tokio::{process::Command, time::timeout};

use super::supervised::SERVER_TIMEOUT;

/// Returns the output of the program, trimmed. The error is its output if it fails, or the hint if it is
/// missing.
pub(super) async fn run(mut command: Command, hint: &str) -> Result<String, String> {
    let output = timeout(SERVER_TIMEOUT, command.stdin(Stdio::null()).kill_on_drop(true).output()).await;
    let output = output.map_err(|_| format!("no answer in {SERVER_TIMEOUT:?}"))?;
    let output = output.map_err(|error| format!("{error}; {hint}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() {
        return Ok(text(&output.stdout));
    }
    Err(format!("{} {}", text(&output.stdout), text(&output.stderr)).trim().to_owned())
}
