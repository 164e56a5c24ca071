//! The table of methods, limits, and the statuses of failures, for the services of every area. A method
//! parses its request, calls the store and answers; `Calls` puts the same bounds around each, on every
//! transport.

pub(crate) mod call;
pub(crate) mod limits;
pub(crate) mod methods;
mod status;

pub use status::details_of;
