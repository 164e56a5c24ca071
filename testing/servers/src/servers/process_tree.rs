//! Child processes of a server.

use std::io;

use rustix::process::Pid;

/// Returns the children of a process. Stop it first, because otherwise the list may already be stale.
///
/// # Errors
/// If the process is gone, or on a system other than Linux.
pub(super) fn children(parent: Pid) -> io::Result<Vec<Pid>> {
    let parent = parent.as_raw_nonzero();
    let children = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"))?;
    Ok(children.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect())
}

/// Returns `true` if a process is gone, or dead and not yet waited for by its parent.
pub(super) fn has_ended(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    // "PID (NAME) STATE …", where the name may hold anything.
    stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['Z', 'X']))
}
