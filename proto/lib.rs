//! The gRPC contract of the Animal Store Service: types, clients and servers generated from `proto/`. The
//! workspace's lints are not for generated code, so this package does without them.

mod codes;
mod page_token;

/// Reasons of errors about accounts and keys, which the core finds and operators read.
pub use admin::v1::AdminErrorReason;
pub use codes::{ErrorCode, Retry, lists};
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

        /// Cause of a refusal, which operators read by the numbers that gateways report.
        pub use crate::admin::v1::RefusalCause;
    }
}

/// The methods of the contract, with what their descriptors say. `build.rs` writes them.
pub mod rpc {
    /// A method.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Rpc {
        /// Its place among [`RPCS`].
        pub number: usize,
        /// `package.Service/Method`.
        pub path: &'static str,
        /// `true` if only processes of the service call it.
        pub is_internal: bool,
        /// `true` if it changes nothing.
        pub is_read: bool,
        /// `true` if repeating a call changes no more than making it once. A call of another method may be
        /// repeated if its request has a name (AIP-155).
        pub is_idempotent: bool,
        /// `true` if its request is a stream.
        pub takes_stream: bool,
        /// `true` if its response is a stream.
        pub returns_stream: bool,
    }

    include!(concat!(env!("OUT_DIR"), "/rpcs.rs"));

    impl Rpc {
        /// Returns the method with this path.
        pub fn find(path: &str) -> Option<Self> {
            RPCS.into_iter().find(|rpc| rpc.path == path)
        }
    }
}

/// The encoded `FileDescriptorSet` of every file above, for reflection.
pub const FILE_DESCRIPTOR_SET: &[u8] = tonic::include_file_descriptor_set!("petstore_descriptor");

/// The `domain` of every `google.rpc.ErrorInfo` that the service sends (AIP-193).
pub const ERROR_DOMAIN: &str = "petstore.v1";
