//! The servers and faults themselves: they start, suffer and end as told.
#![expect(clippy::expect_used, clippy::unwrap_used, reason = "a test that cannot go on fails by panicking")]

mod orphans;
mod postgres;
mod postgres_proxy;
mod proxy;
mod redis;
mod redis_cluster;
