//! The gRPC port. Its operations on pets are in `pets` if REST has no equal.

mod authentication;
mod bounds;
mod conformance;
mod pets;
mod strangers;
