//! Tests of the servers and faults themselves: they start, act and end on request.
#![expect(clippy::expect_used, clippy::unwrap_used, reason = "a test that cannot go on fails by panicking")]

mod orphans;
mod postgres_proxy;
mod proxy;
