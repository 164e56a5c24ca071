//! Limits of accounts by plan, of addresses, and the usage that an account sees.

mod address;
mod early_calls;
mod plans;
mod usage;
