//! The caller of a request: its API key, its address, and the plan that limits it.

pub mod api_key;
pub mod client_address;
pub mod plans;
