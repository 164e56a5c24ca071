//! The gRPC contract of the Animal Store Service: types, clients and servers generated from `proto/`.

/// The public contract, package `petstore.v1`.
#[expect(missing_docs, missing_debug_implementations, unreachable_pub, clippy::pedantic, reason = "generated code")]
pub mod v1 {
    tonic::include_proto!("petstore.v1");
}

/// What gateways ask the core, package `petstore.internal.v1`. Not public.
pub mod internal {
    /// Version 1.
    #[expect(missing_docs, missing_debug_implementations, unreachable_pub, clippy::pedantic, reason = "generated code")]
    pub mod v1 {
        tonic::include_proto!("petstore.internal.v1");
    }
}

/// The encoded `FileDescriptorSet` of every file above, for reflection.
pub const FILE_DESCRIPTOR_SET: &[u8] = tonic::include_file_descriptor_set!("petstore_descriptor");

/// The `domain` of every `google.rpc.ErrorInfo` that the service sends (AIP-193).
pub const ERROR_DOMAIN: &str = "petstore.v1";
