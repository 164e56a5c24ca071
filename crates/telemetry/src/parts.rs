//! States of a process's parts, and their causes: the one table of what `/readyz`, metrics, `petstore health`
//! and the console say.

/// State of a part, in order from good to bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PartState {
    /// The part works normally.
    Ok,
    /// The part works worse than normally, but the process should still get requests.
    Degraded,
    /// The part does not work: requests should go to another process.
    Down,
}

impl PartState {
    /// Every state.
    pub const ALL: [Self; 3] = [Self::Ok, Self::Degraded, Self::Down];

    /// Returns the name: `ok`, `degraded` or `down`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Degraded => "degraded",
            Self::Down => "down",
        }
    }
}

/// Part that is not ok, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Degraded or down.
    pub state: PartState,
    /// The reason.
    pub cause: FaultCause,
}

impl Fault {
    /// Creates a fault. The cause is one that can lead to this state.
    pub fn new(state: PartState, cause: FaultCause) -> Self {
        debug_assert!(cause.states().contains(&state), "{cause:?} never leads to {state:?}");
        Self { state, cause }
    }
}

macro_rules! causes {
    ($($(#[$about:meta])* $cause:ident: $part:literal $states:ident $name:literal, $message:literal;)+) => {
        /// Reason why a part is not ok.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum FaultCause {
            $($(#[$about])* $cause,)+
        }

        impl FaultCause {
            /// Every cause.
            pub const ALL: &[Self] = &[$(Self::$cause),+];

            /// Returns the part.
            pub const fn part(self) -> &'static str {
                match self { $(Self::$cause => $part,)+ }
            }

            /// Returns the states that the part can have for this reason.
            pub const fn states(self) -> &'static [PartState] {
                match self { $(Self::$cause => $states,)+ }
            }

            /// Returns the name, for programs.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$cause => $name,)+ }
            }

            /// Returns what happened, the consequence and the remedy, for people.
            pub const fn message(self) -> &'static str {
                match self { $(Self::$cause => $message,)+ }
            }
        }
    };
}

const DEGRADED: &[PartState] = &[PartState::Degraded];
const DOWN: &[PartState] = &[PartState::Down];
/// A gateway is down for this reason until it has been ready once, and degraded later.
const EITHER: &[PartState] = &[PartState::Degraded, PartState::Down];

causes! {
    /// No core has answered since the gateway started.
    CoreNotReached: "core" DOWN "not_reached",
        "No core has answered since this gateway started: API requests get 503 until one does. Check that a \
         core runs, that --core-url is its address, and the certificates; the gateway's log has the reason.";
    /// No core can be reached, or a proxy says that none is behind it.
    CoreUnreachable: "core" DEGRADED "unreachable",
        "The core is unreachable: API requests get 503 until it returns. The gateway's log has the reason.";
    /// A core has refused the gateway's service token.
    CoreTokenRefused: "core" EITHER "token_refused",
        "A core refuses this gateway, because the service token is not this core's: it serves none of \
         the requests of this gateway, which get 503 unless another core serves them. Give gateways and \
         cores the same token.";
    /// A core requires a client certificate that the gateway does not show.
    CoreCertificateRequired: "core" EITHER "certificate_required",
        "A core refuses this gateway, because it shows no client certificate: it serves none of the \
         requests of this gateway, which get 503 unless another core serves them. Start the gateway with \
         --core-cert and --core-key.";
    /// The core lacks a method.
    CoreLacksMethods: "core" DOWN "lacks_methods",
        "The core lacks a method that this gateway needs; the gateway's log names it. Upgrade cores \
         before gateways.";
    /// The core answers, but its database does not.
    CoreDatabaseUnreachable: "core" EITHER "database_unreachable",
        "The core answers, but its database does not: API requests get 503 until it does. The core's \
         /readyz and log have the cause.";
    /// The core's database takes no writes.
    CoreDatabaseNotWritable: "core" DEGRADED "database_not_writable",
        "The core's database takes no writes: they get 503, reads work. The core's /readyz and log \
         have the cause.";
    /// The core answers with another error, or too late.
    CoreFails: "core" EITHER "fails",
        "The core can be reached, but fails to answer this gateway, or answers too late. The core's \
         /readyz and log have the cause.";

    /// The database does not answer reads.
    DatabaseUnreachable: "database" DOWN "unreachable",
        "The database does not answer a read within a second: API requests get 503 until it does.";
    /// The file of the open SQLite store is no longer the one at its path.
    DatabaseFileReplaced: "database" DOWN "file_replaced",
        "The database's file was replaced or removed while the service runs: API requests get 503. Stop \
         the service, put the right file in its place, and start it again.";
    /// The database has reported damaged content.
    DatabaseDamaged: "database" EITHER "damaged",
        "The database reports damaged content: requests that need it get 500 or 503. What is readable is \
         still served. Stop the service and restore a backup, or fail over to a sound copy, and restart \
         it.";
    /// The database takes no writes.
    DatabaseReadOnly: "database" DEGRADED "read_only",
        "The database is read-only: writes get 503, reads work. It may be a standby, or was made \
         read-only.";
    /// The last write found no space.
    DatabaseDiskFull: "database" DEGRADED "disk_full",
        "The database's disk is full: writes get 503, reads work. Make room; writes then resume \
         without a restart.";
    /// The last write failed for another reason, such as a limit on the file's size.
    DatabaseWritesFail: "database" DEGRADED "writes_fail",
        "The database cannot write to its file: writes get 503, reads work. The log has the cause.";

    /// Redis is unreachable, and the gateway limits by itself.
    LimiterLocal: "limiter" DEGRADED "redis_unreachable",
        "Redis, or a node of its cluster, is unreachable: this gateway limits what is counted there by \
         itself, to its share of the limits (--on-redis-failure local).";
    /// Redis is unreachable, and nothing is limited.
    LimiterOpen: "limiter" DEGRADED "redis_unreachable",
        "Redis, or a node of its cluster, is unreachable: what is counted there is not limited \
         (--on-redis-failure open).";
    /// Redis is unreachable, and requests are refused.
    LimiterClosed: "limiter" DEGRADED "redis_unreachable",
        "Redis, or a node of its cluster, is unreachable: requests that are counted there get 503 \
         LIMITER_UNAVAILABLE (--on-redis-failure closed).";
    /// Redis answers, but refuses to count.
    LimiterRefused: "limiter" DEGRADED "redis_refuses",
        "Redis, or a node of its cluster, refuses to count, and --on-redis-failure decides on requests. The \
         gateway's log has the reason.";

    /// Callers with credentials hold all connections of the port, and another waits.
    GrpcFull: "grpc" DEGRADED "full",
        "All connections of the gRPC port are in use, and another waits: a gateway that has none answers \
         503. Add a core, or end callers that are not needed; below 8,192 open files, raise their limit.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_has_one_cause_of_each_name_and_a_sentence_for_it() {
        for cause in FaultCause::ALL {
            let message = cause.message();
            assert!(message.starts_with(char::is_uppercase) && message.ends_with('.'), "{message}");
            assert!(!cause.states().contains(&PartState::Ok), "{cause:?}");
            let is_same = |other: &&FaultCause| other.part() == cause.part() && other.name() == cause.name();
            let same = FaultCause::ALL.iter().filter(is_same).count();
            // What an outage of Redis means depends on the gateway's setting.
            assert_eq!(same, if cause.name() == "redis_unreachable" { 3 } else { 1 }, "{cause:?}");
        }
    }
}
