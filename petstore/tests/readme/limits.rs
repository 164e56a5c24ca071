//! Bounds on the page about limits: each is the value of the code that enforces it.

use crate::read;

/// A row of the page; the file that enforces it; and the code there, which has the value.
const BOUNDS: [(&str, &str, &str); 59] = [
    ("| REST ports together | 10,000 |", RLIMITS, "rest: 10_000,"),
    ("| 10,000 | 704 |", RLIMITS, "rest: 704,"),
    ("1,024 | 352 |", RLIMITS, "rest_per_address: 1_024,"),
    ("has been open for 250 ms", "crates/http-server/src/connection_slots.rs", "Duration::from_millis(250)"),
    ("no more than an eighth of", "crates/http-server/src/connection_slots.rs", "self.at_once / 8"),
    ("| 64 MiB; then the connection", "crates/http-server/src/connection_slots.rs", "64 * 1024 * 1024"),
    ("| gRPC port | 1,024; then the oldest that has made no call ", RLIMITS, "grpc: 1_024,"),
    ("or else the new one waits | 128 |", RLIMITS, "grpc: 128,"),
    ("without such a call | 512; ", GRPC_CONNECTIONS, "at_once.div_ceil(2)"),
    (
        "| – until its first byte | 5 s |",
        GRPC_CONNECTIONS,
        "FIRST_BYTES_TIMEOUT: Duration = Duration::from_secs(5);",
    ),
    ("| admin port | 64, of which 16 ", RLIMITS, "admin: 64 }"),
    ("| admin port | 64, of which 16 ", "petstore/src/process/parts.rs", "connections - connections / 4;"),
    ("reads nothing of a response | 10 s |", HTTP_SERVER, "write_stall: Duration::from_secs(10)"),
    ("next response | 10 to 11 min |", HTTP_SERVER, "max_connection_age: Duration::from_mins(10)"),
    ("| PROXY header | 5 s; 4 KiB |", HTTP_SERVER, "tls_handshake: Duration::from_secs(5)"),
    (
        "| PROXY header | 5 s; 4 KiB |",
        "crates/http-server/src/proxy_protocol.rs",
        "MAX_BLOCK: u16 = 4 * 1024;",
    ),
    ("until the first byte of a response is taken | 100; 1 min |", HTTP_SERVER, "max_streams: 100,"),
    (
        "until the first byte of a response is taken | 100; 1 min |",
        HTTP_SERVER,
        "stream_deadline: Duration::from_mins(1)",
    ),
    ("as many writes | 128; 96 of one account |", PERMITS, "MAX_IN_FLIGHT: usize = 128;"),
    ("as many writes | 128; 96 of one account |", PERMITS, "MAX_OF_ACCOUNT: usize = 96;"),
    ("| wait; one that would wait over 1 s is 503", PERMITS, "MAX_WAIT: Duration = Duration::from_secs(1);"),
    ("| reads in a core, and as many writes | 512 |", GRPC_LIMITS, "        calls: 512,"),
    ("operators' calls | 256; 64 |", GRPC_LIMITS, "internal_calls: 256,"),
    ("operators' calls | 256; 64 |", GRPC_LIMITS, "operator_calls: 64,"),
    ("| open imports; their messages processed at once | 16; 4 |", GRPC_LIMITS, "imports: 16,"),
    ("processed at once | 16; 4 |", "core-service/src/grpc.rs", "CHUNKS: usize = 4;"),
    ("| calls on one connection | 256 |", "crates/grpc-server/src/server.rs", "MAX_STREAMS: u32 = 256;"),
    ("others | 44 MiB, imports aside; 16 MiB (a quarter ", GRPC_LIMITS, "data_in_flight: 44 * MIB,"),
    ("others | 44 MiB, imports aside; 16 MiB (a quarter ", GRPC_LIMITS, "internal_in_flight: 16 * MIB,"),
    ("(a quarter per connection) |", GRPC_LIMITS, "connection_share: 4,"),
    ("| 64 KiB, 2 KiB and the request each: 31 |", GRPC_LIMITS, "watches_of_connection: 64 * KIB,"),
    (
        "| time for a call; ",
        "crates/core-client/src/client.rs",
        "DEADLINE: Duration = Duration::from_secs(5);",
    ),
    (
        "of an import | 5 s; 10 s |",
        "core-service/src/state.rs",
        "IMPORT_IDLE_TIMEOUT: Duration = Duration::from_secs(10);",
    ),
    (
        "while no core answers | 30 s |",
        "crates/key-cache/src/changes.rs",
        "confirmed_at.plus(Duration::from_secs(30))",
    ),
    ("caches | 50,000 |", "crates/key-cache/src/resolver.rs", "MAX_KNOWN: u64 = 50_000;"),
    ("| 200 a second |", LOOKUPS, "BATCH_INTERVAL: Duration = Duration::from_millis(5);"),
    ("one lookup call | 1,000 |", LOOKUPS, "MAX_BATCH: usize = 1_000;"),
    (
        "| wait for a lookup, then 503 `OVERLOADED` | 2 s |",
        LOOKUPS,
        "QUEUE_TIMEOUT: Duration = Duration::from_secs(2);",
    ),
    ("| 8 h; 1 h; 50 |", OPERATOR, "SESSION_TTL: Duration = Duration::from_hours(8);"),
    ("| 8 h; 1 h; 50 |", OPERATOR, "SESSION_IDLE: Duration = Duration::from_hours(1);"),
    ("| 8 h; 1 h; 50 |", OPERATOR, "MAX_SESSIONS: u64 = 50;"),
    (
        "then 429 | 10 a minute |",
        "admin/service/src/grpc/caller.rs",
        "ATTEMPTS: Quota = Quota { per_minute: 10,",
    ),
    (
        "| Enterprise limits | 1 to 1,000,000,000 |",
        "core-service/src/accounts/account.rs",
        "MAX_LIMIT: u64 = 1_000_000_000;",
    ),
    (
        "| gateway reports usage and refusals | every 5 s |",
        "rest-gateway/src/usage_counter.rs",
        "sleep(Duration::from_secs(5))",
    ),
    ("| usage by day; by minute and key | 90 days; 24 h", RETENTION, "USAGE_DAYS: i64 = 90;"),
    ("| usage by day; by minute and key | 90 days; 24 h", RETENTION, "USAGE_MINUTES: i64 = 24 * 60;"),
    (
        "| refused requests, sampled: kept for | 24 h |",
        RETENTION,
        "REFUSALS: Duration = Duration::from_hours(24);",
    ),
    ("all | 1,000; 5,000; 200,000 ", RETENTION, "REFUSALS_OF_ACCOUNT: u64 = 1_000;"),
    ("all | 1,000; 5,000; 200,000 ", RETENTION, "REFUSALS_OF_UNKNOWN: u64 = 5_000;"),
    ("all | 1,000; 5,000; 200,000 ", RETENTION, "REFUSALS_IN_ALL: u64 = 200_000;"),
    ("a ban by an operator | 32; 7 days; 366 days |", BROWNOUTS, "MAX_PLANNED: usize = 32;"),
    (
        "a ban by an operator | 32; 7 days; 366 days |",
        BROWNOUTS,
        "MAX_LENGTH: Duration = Duration::from_hours(24 * 7);",
    ),
    (
        "a ban by an operator | 32; 7 days; 366 days |",
        "admin/service/src/grpc/keys.rs",
        "length > Duration::from_hours(24 * 366)",
    ),
    (
        "| idempotency keys | 24 h,",
        "core-service/src/pets/creation.rs",
        "KEPT: Duration = Duration::from_hours(24);",
    ),
    ("idle transaction | 2 s; 1 s; 5 s |", POSTGRES, "(\"statement_timeout\", \"2s\")"),
    ("PostgreSQL (SQLite) | 1.4 s (4 s) |", POSTGRES, "deadline = Duration::from_millis(1_400);"),
    ("at a time | 10 min |", POSTGRES, "time::Instant::now() + Duration::from_mins(10);"),
    (
        "| timeout of a call to Redis | 60 ms |",
        "crates/rate-limit/src/redis/connection.rs",
        "[500, 50, 60].map(Duration::from_millis)",
    ),
    (
        "then dropped | 4 MiB; 2,048 |",
        "crates/telemetry/src/logs/writer.rs",
        "MAX_WAITING: usize = 4 * 1_024 * 1_024;",
    ),
];
const BROWNOUTS: &str = "core-service/src/accounts/store/brownouts.rs";
const GRPC_LIMITS: &str = "crates/grpc-server/src/capacity.rs";
const HTTP_SERVER: &str = "crates/http-server/src/lib.rs";
const LOOKUPS: &str = "crates/key-cache/src/lookups.rs";
const OPERATOR: &str = "admin/service/src/domain.rs";
const PERMITS: &str = "crates/core-client/src/permits.rs";
const POSTGRES: &str = "crates/database/src/postgres.rs";
const RETENTION: &str = "core-service/src/accounts/retention.rs";
const GRPC_CONNECTIONS: &str = "crates/grpc-server/src/connection.rs";
const RLIMITS: &str = "petstore/src/process/listener.rs";

#[test]
fn every_bound_on_the_page_is_the_one_that_the_code_enforces() {
    let page = read("docs/limits.md");
    for (row, file, code) in BOUNDS {
        assert!(
            page.contains(row),
            "docs/limits.md has no longer {row:?}, which {file} enforces with {code:?}"
        );
        assert!(
            read(file).contains(code),
            "{file} has no longer {code:?}: is {row:?} of docs/limits.md true?"
        );
    }
}
