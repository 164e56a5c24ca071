//! No core dumps: they would hold keys, tokens and passwords.

use rustix::process::{DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit};

/// The process leaves no core dump, and other processes of its user cannot look into its memory. What the system
/// refuses is said in the log, and is no reason not to serve.
pub(crate) fn forbid() {
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    // Not asked for without need: a system may forbid the call itself.
    if getrlimit(Resource::Core) != none
        && let Err(error) = setrlimit(Resource::Core, none)
    {
        tracing::warn!(%error, "could not forbid core dumps");
    }
    // The limit says nothing to a program that the kernel pipes core dumps to.
    if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        tracing::warn!(%error, "could not forbid core dumps to programs");
    }
}
