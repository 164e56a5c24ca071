//! `grpc.reflection.v1` and `v1alpha`, for tools such as grpcurl. Only the public contract and health are
//! listed.

use petstore_proto::FILE_DESCRIPTOR_SET;
use prost::Message;
use prost_types::FileDescriptorSet;
use tonic::service::Routes;
use tonic_reflection::server::Builder;

use super::methods::MAX_TOOL;

/// Adds reflection. It is only a convenience, so a fault in it stops nothing else.
pub(super) fn add_to(routes: Routes) -> Routes {
    let Ok(public) = public_descriptors() else {
        tracing::error!("reflection is off: the descriptors cannot be read");
        return routes;
    };
    let builder = || {
        Builder::configure()
            .register_file_descriptor_set(public.clone())
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    match (builder().build_v1(), builder().build_v1alpha()) {
        (Ok(v1), Ok(v1alpha)) => routes
            .add_service(v1.max_decoding_message_size(MAX_TOOL))
            .add_service(v1alpha.max_decoding_message_size(MAX_TOOL)),
        (Err(error), _) | (_, Err(error)) => {
            tracing::error!(%error, "reflection is off: the descriptors cannot be read");
            routes
        }
    }
}

fn public_descriptors() -> Result<FileDescriptorSet, prost::DecodeError> {
    let mut descriptors = FileDescriptorSet::decode(FILE_DESCRIPTOR_SET)?;
    descriptors.file.retain(|file| !file.package().starts_with("petstore.internal."));
    Ok(descriptors)
}
