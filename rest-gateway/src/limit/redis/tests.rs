//! Against a real Redis.

mod conformance;
