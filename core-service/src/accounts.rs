//! The accounts, which are the crate `petstore-accounts`, and the services that gateways call about them.

pub(crate) mod grpc;

pub use petstore_accounts::*;
