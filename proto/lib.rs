//! The gRPC contract of the Animal Store Service: types, clients and servers generated from `proto/`. The
//! workspace's lints are not for generated code, so this package does without them.

mod batch;
mod error_code;
mod page_token;
pub mod rpc;

pub use batch::{Answer, Call, Outcome, RequestForm};
pub use error_code::{ErrorCode, Retry};
pub use page_token::PageToken;

/// The public contract, package `petstore.v1`.
pub mod v1 {
    tonic::include_proto!("petstore.v1");
}

/// API of operators, package `petstore.admin.v1`.
pub mod admin {
    /// Version 1.
    pub mod v1 {
        tonic::include_proto!("petstore.admin.v1");
    }
}

/// API of the core for gateways, package `petstore.internal.v1`. Not public.
pub mod internal {
    /// Version 1.
    pub mod v1 {
        tonic::include_proto!("petstore.internal.v1");
    }
}

/// Numbers of the public lists in page tokens, which gateway and core both read. A filter of a list is added
/// to its number, from 1 to 15.
pub mod lists {
    /// Pets, filtered by the number of a `PetStatus`.
    pub const PETS: u8 = 0x00;
    /// Orders.
    pub const ORDERS: u8 = 0x10;
}

/// The encoded `FileDescriptorSet` of every file above, for reflection.
pub const FILE_DESCRIPTOR_SET: &[u8] = tonic::include_file_descriptor_set!("petstore_descriptor");

/// The `domain` of every `google.rpc.ErrorInfo` that the service sends (AIP-193).
pub const ERROR_DOMAIN: &str = "petstore.v1";
