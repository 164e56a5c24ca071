//! Limits of accounts by plan, of addresses, and the usage that an account sees.

mod address;
mod clock_steps;
mod early_calls;
mod plans;
mod usage;
