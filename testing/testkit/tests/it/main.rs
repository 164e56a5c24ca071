//! Tests of the harness itself.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails by panicking")]

mod load;
