//! The core over gRPC. Only this module uses tonic.
//!
//! A method parses its request, calls the store and answers; `call` applies the same limits to each, on every
//! transport, and `status` converts a failure into a `Status`.

use std::convert::Infallible;

use petstore_proto::{
    admin::v1::admin_service_server::AdminServiceServer,
    internal::v1::{
        batch_service_server::BatchServiceServer, key_service_server::KeyServiceServer,
        usage_service_server::UsageServiceServer,
    },
    v1::store_service_server::StoreServiceServer,
};
use tonic::service::Routes;
use tonic_health::ServingStatus;
use tower::{BoxError, Service, ServiceBuilder};

use crate::Core;

mod access;
mod admin;
mod batch_service;
mod budgets;
mod call;
mod call_id;
mod capacity;
mod connection;
mod convert;
mod health;
mod import;
mod key_service;
mod message_size;
mod methods;
mod metrics;
mod pet_store;
mod receive;
mod reflection;
mod security;
mod server;
mod status;
mod store_service;
mod usage_service;

pub use access::RequiredToken;
pub(crate) use admin::Guesses;
pub use batch_service::in_process;
pub(crate) use capacity::Capacity;
pub use connection::Listener;
use message_size::MessageSizeRouter;
use methods::MAX_MESSAGE;
pub(crate) use metrics::CallMetrics;
pub use security::{InvalidTls, Security, TlsFiles};
pub use server::{GrpcServerLimits, serve};

/// Returns the public and the internal services, health and reflection. Health is always "serving": only
/// [`serve`] updates it.
#[must_use]
pub fn routes(core: &Core) -> Routes {
    let (health, _) = health::service(ServingStatus::Serving);
    reflection::add_to(services(core).add_service(health))
}

/// Returns the public and the internal services for a client in the same process. Code and answers are those
/// of a remote server, without a socket.
#[must_use]
pub fn in_memory(
    core: &Core,
) -> impl Service<
    http::Request<tonic::body::Body>,
    Response = http::Response<tonic::body::Body>,
    Error = BoxError,
    Future: Send,
> + Clone
+ Send
+ Sync
+ 'static {
    ServiceBuilder::new().map_err(|never: Infallible| match never {}).service(services(core).prepare())
}

/// Returns these services for a program that has opened the store itself, and so needs no token: its calls of
/// `AdminService` are those of the operator `local`. It must not forward calls of others.
#[must_use]
pub fn in_memory_as_local_operator(
    core: &Core,
) -> impl Service<
    http::Request<tonic::body::Body>,
    Response = http::Response<tonic::body::Body>,
    Error = BoxError,
    Future: Send,
> + Clone
+ Send
+ Sync
+ 'static {
    let mark = |mut request: http::Request<tonic::body::Body>| {
        request.extensions_mut().insert(admin::LocalOperator);
        request
    };
    ServiceBuilder::new().map_request(mark).service(in_memory(core))
}

fn services(core: &Core) -> Routes {
    let store_service = StoreServiceServer::new(core.clone())
        .max_decoding_message_size(MAX_MESSAGE)
        .max_encoding_message_size(MAX_MESSAGE);
    let batch_service = BatchServiceServer::new(core.clone())
        .max_decoding_message_size(MAX_MESSAGE)
        .max_encoding_message_size(MAX_MESSAGE);
    let key_service = KeyServiceServer::new(core.clone())
        .max_decoding_message_size(MAX_MESSAGE)
        .max_encoding_message_size(key_service::MAX_ANSWER);
    let usage_service = UsageServiceServer::new(core.clone())
        .max_decoding_message_size(MAX_MESSAGE)
        .max_encoding_message_size(MAX_MESSAGE);
    let admin_service = AdminServiceServer::new(core.clone())
        .max_decoding_message_size(MAX_MESSAGE)
        .max_encoding_message_size(MAX_MESSAGE);
    Routes::new(MessageSizeRouter::new(core))
        .add_service(store_service)
        .add_service(batch_service)
        .add_service(key_service)
        .add_service(usage_service)
        .add_service(admin_service)
}

#[cfg(test)]
mod tests;
