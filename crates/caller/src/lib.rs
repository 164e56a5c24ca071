//! The caller of a request: its API key, its address, the plan that limits it, and what its calls carry.

pub mod api_key;
pub mod call;
pub mod client_address;
pub mod headers;
pub mod plans;
