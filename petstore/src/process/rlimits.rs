//! Resource limits of the process: core dumps, and file descriptors with their shares.

#[cfg(target_os = "linux")]
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Disables core dumps, which would contain keys, tokens and passwords, and keeps other processes of the same
/// user from reading this one's memory. If the system refuses, that is logged and the process serves anyway.
pub(crate) fn forbid_core_dumps() {
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    // Set only if necessary: a system may refuse the call itself.
    if getrlimit(Resource::Core) != none
        && let Err(error) = setrlimit(Resource::Core, none)
    {
        tracing::warn!(%error, "could not disable core dumps");
    }
    // The limit does not apply to a program that the kernel pipes core dumps to.
    #[cfg(target_os = "linux")]
    if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        tracing::warn!(
            %error,
            "could not disable core dumps that are piped to a program: they would contain keys and passwords"
        );
    }
}

/// Raises the limit of open file descriptors as far as the system allows.
pub(crate) fn raise_open_files() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return;
    }
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        tracing::warn!(%error, "could not raise the limit of open file descriptors");
    }
}

/// Maximum number of connections of each part of the process, so that no part uses up the file descriptors of
/// another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConnectionLimits {
    /// Connections to the ports of REST together.
    pub(crate) rest: usize,
    /// Connections to the ports of REST from one client address.
    pub(crate) rest_per_address: usize,
    /// Connections to the gRPC port.
    pub(crate) grpc: usize,
    /// Connections to the admin port.
    pub(crate) admin: usize,
}

/// Limits if there are plenty of file descriptors. Memory bounds connections, too.
const MAX: ConnectionLimits =
    ConnectionLimits { rest: 10_000, rest_per_address: 1_024, grpc: 1_024, admin: 64 };
/// File descriptors for the store, Redis, the core, logs, traces and files.
const MAX_OTHER: usize = 128;

impl ConnectionLimits {
    /// Returns the limits for the file descriptors that this process may open.
    pub(crate) fn for_this_process() -> Self {
        let limit = getrlimit(Resource::Nofile).current.and_then(|limit| usize::try_from(limit).ok());
        Self::for_descriptors(limit.unwrap_or(usize::MAX)) // `None`: unlimited
    }

    /// Logs the limits.
    pub(crate) fn log(self) {
        let Self { rest, rest_per_address, grpc, admin } = self;
        let open_files = getrlimit(Resource::Nofile).current;
        tracing::info!(open_files, rest, rest_per_address, grpc, admin, "connection limits");
    }

    fn for_descriptors(descriptors: usize) -> Self {
        let grpc = (descriptors / 8).min(MAX.grpc);
        let admin = (descriptors / 16).min(MAX.admin);
        let kept = (descriptors / 2).min(MAX_OTHER) + grpc + admin;
        let rest = descriptors.saturating_sub(kept).min(MAX.rest);
        Self { rest, rest_per_address: (rest / 2).min(MAX.rest_per_address), grpc, admin }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_many_descriptors_each_component_has_its_maximum() {
        assert_eq!(ConnectionLimits::for_descriptors(65_536), MAX);
        assert_eq!(ConnectionLimits::for_descriptors(usize::MAX), MAX);
    }

    #[test]
    fn with_few_descriptors_each_component_has_its_share() {
        let with_1024 = ConnectionLimits { rest: 704, rest_per_address: 352, grpc: 128, admin: 64 };
        assert_eq!(ConnectionLimits::for_descriptors(1_024), with_1024);
        for descriptors in [64, 100, 256, 1_000, 5_000] {
            let ConnectionLimits { rest, rest_per_address, grpc, admin } =
                ConnectionLimits::for_descriptors(descriptors);
            assert!(rest + grpc + admin + 32 <= descriptors, "{descriptors}");
            assert!(rest_per_address > 0 && rest_per_address < rest, "{descriptors}");
            assert!(grpc > 0 && admin > 0, "{descriptors}");
        }
    }
}
