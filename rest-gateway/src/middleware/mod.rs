//! What happens to a request before its handler, and to its answer after it.
//!
//! [`edge`] is the one layer; the other files are its steps, in this order: [`request_id`], [`head`], then
//! [`admission`] (authentication and rate limit). One layer instead of a stack, so that what admission found out
//! is a variable on the way back, and no answer can leave without its header fields.

mod admission;
pub(crate) mod edge;
mod head;
mod observation;
mod rate_headers;
mod request_id;

pub(crate) use admission::Caller;
#[cfg(test)]
pub(crate) use request_id::RequestId;
