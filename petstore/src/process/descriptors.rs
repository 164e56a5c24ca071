//! File descriptors: how many there may be, and what they are for.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit of open file descriptors as far as the system lets this process.
pub(crate) fn raise_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return;
    }
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        tracing::warn!(%error, "could not raise the limit of open file descriptors");
    }
}

/// How many connections each part of the process may have, so that no part takes the file descriptors of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shares {
    /// To the ports of REST together.
    pub(crate) rest: usize,
    /// To these, from one address.
    pub(crate) rest_of_one_address: usize,
    /// To the gRPC port.
    pub(crate) grpc: usize,
    /// To the admin port.
    pub(crate) admin: usize,
}

/// What no part needs more than, however many file descriptors there are. Memory bounds connections too.
const MOST: Shares = Shares { rest: 10_000, rest_of_one_address: 1_024, grpc: 1_024, admin: 64 };
/// For the store, Redis, the core, logs, traces and files.
const MOST_FOR_THE_REST: usize = 128;

impl Shares {
    /// Of the limit that this process has.
    pub(crate) fn of_this_process() -> Self {
        let limit = getrlimit(Resource::Nofile).current.and_then(|limit| usize::try_from(limit).ok());
        Self::of(limit.unwrap_or(usize::MAX)) // without a number there is no limit
    }

    /// Tells operators.
    pub(crate) fn log(self) {
        let Self { rest, rest_of_one_address, grpc, admin } = self;
        let open_files = getrlimit(Resource::Nofile).current;
        tracing::info!(open_files, rest, rest_of_one_address, grpc, admin, "the most connections at once");
    }

    fn of(descriptors: usize) -> Self {
        let grpc = (descriptors / 8).min(MOST.grpc);
        let admin = (descriptors / 16).min(MOST.admin);
        let kept = (descriptors / 2).min(MOST_FOR_THE_REST) + grpc + admin;
        let rest = descriptors.saturating_sub(kept).min(MOST.rest);
        Self { rest, rest_of_one_address: (rest / 2).min(MOST.rest_of_one_address), grpc, admin }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_many_descriptors_each_part_has_its_most() {
        assert_eq!(Shares::of(65_536), MOST);
        assert_eq!(Shares::of(usize::MAX), MOST);
    }

    #[test]
    fn with_few_descriptors_each_part_has_its_share_and_one_address_not_all() {
        let of_1024 = Shares { rest: 704, rest_of_one_address: 352, grpc: 128, admin: 64 };
        assert_eq!(Shares::of(1_024), of_1024);
        for descriptors in [64, 100, 256, 1_000, 5_000] {
            let Shares { rest, rest_of_one_address, grpc, admin } = Shares::of(descriptors);
            assert!(rest + grpc + admin + 32 <= descriptors, "{descriptors}");
            assert!(rest_of_one_address > 0 && rest_of_one_address < rest, "{descriptors}");
            assert!(grpc > 0 && admin > 0, "{descriptors}");
        }
    }
}
