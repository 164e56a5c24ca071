//! The process as an operator runs it: its start and end, log, metrics, traces, memory, and secrets.

mod addresses;
mod admin_port;
mod drains;
mod logs;
mod memory;
mod metrics;
mod overload;
mod secrets;
mod settings;
mod start;
mod stop;
mod traces;
