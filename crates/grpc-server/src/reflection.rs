//! Reflection of the public contract (`grpc.reflection.v1` and `v1alpha`), as its protocol requires it: what
//! is not found is an answer, and the value of an enum is a sibling of the enum. tonic's own service ends the
//! stream, and names values as if they were in the enum.

use std::{collections::HashMap, future::ready, sync::Arc};

use futures_util::{
    StreamExt,
    stream::{self, BoxStream},
};
use http::{Request as HttpRequest, Uri};
use prost::Message;
use prost_types::{
    DescriptorProto, EnumDescriptorProto, EnumValueDescriptorProto, FileDescriptorProto, FileDescriptorSet,
};
use tonic::{Request, Response, Status, Streaming, service::Routes};
use tonic_reflection::{
    pb::{
        v1::{
            ErrorResponse, FILE_DESCRIPTOR_SET, ServerReflectionRequest, ServerReflectionResponse,
            server_reflection_client::ServerReflectionClient,
            server_reflection_request::MessageRequest,
            server_reflection_response::MessageResponse,
            server_reflection_server::{ServerReflection, ServerReflectionServer},
        },
        v1alpha,
    },
    server::{Builder, Error},
};
use tower::ServiceExt;

const METHOD: &str = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
const ALPHA_METHOD: &str = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo";

/// Encoded files, each with the options that are extensions, which decoding drops.
#[derive(Clone, PartialEq, Message)]
struct EncodedFiles {
    #[prost(bytes = "vec", repeated, tag = "1")]
    files: Vec<Vec<u8>>,
}

/// Returns the encoded and the decoded descriptors of the files whose packages do not begin with `hidden`.
pub(super) fn public(descriptors: &[u8], hidden: &str) -> (Vec<u8>, FileDescriptorSet) {
    let decoded = EncodedFiles::decode(descriptors).and_then(|encoded| {
        let decode = |file: Vec<u8>| Ok((FileDescriptorProto::decode(&*file)?, file));
        encoded.files.into_iter().map(decode).collect::<Result<Vec<_>, _>>()
    });
    let mut files = decoded.unwrap_or_else(|error| {
        tracing::error!(%error, "no service has health and reflection: the descriptors cannot be read");
        Vec::new()
    });
    files.retain(|(file, _)| !file.package().starts_with(hidden));
    let (file, files) = files.into_iter().unzip();
    (EncodedFiles { files }.encode_to_vec(), FileDescriptorSet { file })
}

/// Adds reflection of these encoded files and of those that tools need besides. It is only a convenience, so
/// a fault in it stops nothing else.
pub(super) fn with_reflection(routes: Routes, public: &[u8], message_size: usize) -> Routes {
    let sets = [
        public,
        tonic_types::pb::FILE_DESCRIPTOR_SET, // of error details
        tonic_health::pb::FILE_DESCRIPTOR_SET,
        FILE_DESCRIPTOR_SET,
        v1alpha::FILE_DESCRIPTOR_SET,
    ];
    let builder = Builder::configure().include_reflection_service(false);
    let builder = sets.iter().fold(builder, |builder, set| builder.register_encoded_file_descriptor_set(set));
    match builder.build_v1().and_then(|files| Ok((files, enums_of_values(&sets)?))) {
        Ok((files, enums)) => {
            let reflection = PortReflection {
                files: ServerReflectionClient::new(Routes::new(files)),
                enums: Arc::new(enums),
            };
            let v1 = ServerReflectionServer::new(reflection).max_decoding_message_size(message_size);
            // The messages of both versions are the same.
            let v1alpha = v1.clone().map_request(|mut request: HttpRequest<_>| {
                *request.uri_mut() = Uri::from_static(METHOD);
                request
            });
            routes.add_service(v1).into_axum_router().route_service(ALPHA_METHOD, v1alpha).into()
        }
        Err(error) => {
            tracing::error!(%error, "reflection is off: the descriptors cannot be read");
            routes
        }
    }
}

/// Returns the full name of its enum for that of each value.
fn enums_of_values(sets: &[&[u8]]) -> Result<HashMap<String, String>, Error> {
    fn add(
        found: &mut HashMap<String, String>,
        scope: &str,
        enums: &[EnumDescriptorProto],
        messages: &[DescriptorProto],
    ) {
        for declared in enums {
            let name = format!("{scope}.{}", declared.name());
            let of_value =
                |value: &EnumValueDescriptorProto| (format!("{scope}.{}", value.name()), name.clone());
            found.extend(declared.value.iter().map(of_value));
        }
        for message in messages {
            add(found, &format!("{scope}.{}", message.name()), &message.enum_type, &message.nested_type);
        }
    }
    let mut found = HashMap::new();
    for set in sets {
        for file in FileDescriptorSet::decode(*set)?.file {
            add(&mut found, file.package(), &file.enum_type, &file.message_type);
        }
    }
    Ok(found)
}

/// Reflection, whose answers are those of tonic's own service.
#[derive(Clone)]
struct PortReflection {
    files: ServerReflectionClient<Routes>,
    enums: Arc<HashMap<String, String>>,
}

impl PortReflection {
    async fn answer(&self, question: ServerReflectionRequest) -> ServerReflectionResponse {
        let mut asked = question.clone();
        if let Some(MessageRequest::FileContainingSymbol(symbol)) = &mut asked.message_request
            && let Some(of_value) = self.enums.get(symbol)
        {
            symbol.clone_from(of_value);
        }
        let answered = async {
            let mut files = self.files.clone();
            files.server_reflection_info(stream::once(ready(asked))).await?.into_inner().message().await
        };
        let message_response = match answered.await {
            Ok(answer) => answer.and_then(|answer| answer.message_response),
            Err(status) => Some(MessageResponse::ErrorResponse(ErrorResponse {
                error_code: status.code().into(),
                error_message: status.message().to_owned(),
            })),
        };
        let valid_host = question.host.clone();
        ServerReflectionResponse { valid_host, original_request: Some(question), message_response }
    }
}

#[tonic::async_trait]
impl ServerReflection for PortReflection {
    type ServerReflectionInfoStream = BoxStream<'static, Result<ServerReflectionResponse, Status>>;

    async fn server_reflection_info(
        &self,
        questions: Request<Streaming<ServerReflectionRequest>>,
    ) -> Result<Response<Self::ServerReflectionInfoStream>, Status> {
        let reflection = self.clone();
        let answers = questions.into_inner().then(move |question| {
            let reflection = reflection.clone();
            async move { Ok(reflection.answer(question?).await) }
        });
        Ok(Response::new(answers.boxed()))
    }
}
