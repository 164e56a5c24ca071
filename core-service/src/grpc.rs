//! The table of methods, and limits, for the services of every area. A method parses its request, calls the
//! store and answers; `Calls` puts the same bounds around each, on every transport.

pub(crate) mod call;
pub(crate) mod limits;
pub(crate) mod methods;
