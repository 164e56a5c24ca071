//! The core over gRPC. Only this module names tonic.
//!
//! A method parses its request, calls the store and answers; `call` puts the same bounds around each, on
//! every transport, and `status` turns a failure into a `Status`.

use std::convert::Infallible;

use petstore_proto::{
    admin::v1::admin_service_server::AdminServiceServer,
    internal::v1::{
        batch_service_server::BatchServiceServer, key_service_server::KeyServiceServer,
        usage_service_server::UsageServiceServer,
    },
    v1::{pet_store_server::PetStoreServer, store_service_server::StoreServiceServer},
};
use tonic::service::Routes;
use tower::{
    BoxError,
    util::{MapErr, MapRequestLayer},
};

use crate::Core;

mod access;
mod admin;
mod batch_service;
mod call;
mod capacity;
mod connection;
mod convert;
mod import;
mod key_service;
mod limits;
mod methods;
mod pet_store;
mod receive;
mod server;
mod status;
mod store_service;
mod usage_service;

pub use access::{InvalidTls, RequiredTls, RequiredToken, Security, TlsFiles};
pub(crate) use admin::Guesses;
pub use batch_service::in_process;
pub(crate) use call::CallMetrics;
pub(crate) use capacity::Capacity;
pub use connection::Listener;
use limits::LIMITS;
use methods::Method;
pub use server::{GrpcServerLimits, serve};

/// Parses a pet to add, and returns it as it is answered, but without an identifier.
///
/// # Errors
///
/// If it is refused.
#[cfg(feature = "fuzzing")]
pub fn fuzz_pet(
    pet: petstore_proto::v1::NewPet,
) -> Result<petstore_proto::v1::Pet, crate::domain::PetStoreError> {
    let pet = convert::new_pet(Some(pet))?;
    Ok(convert::pet(pet.with_id(crate::domain::PetId(0))))
}

/// Parses the request for a page of pets.
///
/// # Errors
///
/// If it is refused.
#[cfg(feature = "fuzzing")]
pub fn fuzz_list(
    request: &petstore_proto::v1::ListPetsRequest,
) -> Result<crate::domain::ListPets, crate::domain::PetStoreError> {
    convert::list_pets(request)
}

/// The public and the internal services for a client in the same process: the same code, the same answers,
/// without a socket.
pub type InMemory = MapErr<Routes, fn(Infallible) -> BoxError>;

/// Returns the services for a client in the same process.
#[must_use]
pub fn in_memory(core: &Core) -> InMemory {
    MapErr::new(services(core).prepare(), |never| match never {})
}

/// Returns the services for a program that has the store itself, and so needs no token: its calls of
/// `AdminService` are those of the operator `local`. It must not forward calls of others.
#[must_use]
pub fn in_memory_as_local_operator(core: &Core) -> InMemory {
    let marked = services(core).into_axum_router().layer(MapRequestLayer::new(mark_as_local_operator));
    MapErr::new(Routes::from(marked).prepare(), |never| match never {})
}

fn mark_as_local_operator<B>(mut request: http::Request<B>) -> http::Request<B> {
    request.extensions_mut().insert(admin::LocalOperator);
    request
}

fn services(core: &Core) -> Routes {
    macro_rules! limited {
        ($server:ident, $request:expr, $answer:expr) => {
            $server::new(core.clone()).max_decoding_message_size($request).max_encoding_message_size($answer)
        };
    }
    let message = LIMITS.message;
    let routes = Routes::new(limited!(PetStoreServer, message, message))
        .add_service(limited!(StoreServiceServer, message, message))
        .add_service(limited!(BatchServiceServer, message, message))
        .add_service(limited!(KeyServiceServer, message, LIMITS.keys_answer))
        .add_service(limited!(UsageServiceServer, message, message))
        .add_service(limited!(AdminServiceServer, message, message));
    // tonic limits messages per service only, so methods with larger ones have a server each.
    let bulk = limited!(PetStoreServer, LIMITS.bulk_message, LIMITS.bulk_message);
    let larger = Method::all().filter(|method| method.max_message > LIMITS.message);
    let path = |method: &Method| format!("/{}", method.path);
    let all = routes.into_axum_router();
    larger.fold(all, |all, method| all.route_service(&path(method), bulk.clone())).into()
}

#[cfg(test)]
mod tests;
