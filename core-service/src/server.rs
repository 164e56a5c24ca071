//! The core's services on a socket, or for clients in the same process.

use std::{convert::Infallible, io, sync::Arc};

use futures_util::future::BoxFuture;
use petstore_database::PING_TIMEOUT;
use petstore_grpc_server::{Calls, GrpcServerLimits, Listener, Method, Probe, Security, Served};
use petstore_proto::{
    FILE_DESCRIPTOR_SET,
    internal::v1::{
        batch_service_server::BatchServiceServer, key_service_server::KeyServiceServer,
        usage_service_server::UsageServiceServer,
    },
    v1::{pet_store_server::PetStoreServer, store_service_server::StoreServiceServer},
};
use tokio::time;
use tonic::service::Routes;
use tower::{BoxError, util::MapErr};

use crate::{
    Core,
    errors::PetStoreError,
    grpc::{BOUNDS, LIMITS, METHODS},
};

mod batch_service;

pub use crate::grpc::of_operators;

/// The public and the internal services for a client in the same process: the same code, the same answers,
/// without a socket.
pub type InMemory = MapErr<Routes, fn(Infallible) -> BoxError>;

/// Returns these services for a client in the same process.
pub fn in_memory(services: Routes) -> InMemory {
    MapErr::new(services.prepare(), |never| match never {})
}

/// Returns the core's services, to which a program may add others.
pub fn services(core: &Core) -> Routes {
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
        .add_service(limited!(UsageServiceServer, message, message));
    // tonic limits messages per service only, so methods with larger ones have a server each.
    let bulk = limited!(PetStoreServer, LIMITS.bulk_message, LIMITS.bulk_message);
    let larger = METHODS.rows.iter().filter(|method| method.max_message > LIMITS.message);
    let path = |method: &Method| format!("/{}", method.path);
    let all = routes.into_axum_router();
    larger.fold(all, |all, method| all.route_service(&path(method), bulk.clone())).into()
}

/// Maximum number of chunks of pets that are written concurrently.
pub(crate) const CHUNKS: usize = LIMITS.chunks;

/// Returns the bounds of the core's calls.
pub(crate) fn calls() -> Calls {
    Calls::new::<PetStoreError>(&BOUNDS, METHODS)
}

/// Serves these services, which are those of the core and others with its bounds, as
/// [`petstore_grpc_server::serve`] does.
///
/// # Errors
///
/// If the transport fails.
pub fn serve(
    listener: Listener,
    security: Security,
    core: &Core,
    services: Routes,
    shutdown: BoxFuture<'static, ()>,
    limits: GrpcServerLimits,
) -> BoxFuture<'static, io::Result<()>> {
    let served = Served {
        routes: services,
        calls: core.calls.clone(),
        descriptors: FILE_DESCRIPTOR_SET,
        hidden: "petstore.internal.",
        probe: probe(core),
    };
    petstore_grpc_server::serve(listener, security, served, shutdown, limits)
}

/// Returns the probe of the store, which also notices whether it takes writes. A store that takes longer than
/// a second counts as not serving. One that only takes no writes is serving: its reads work, and other cores
/// have the same database.
fn probe(core: &Core) -> Probe {
    let database = core.store.database().clone();
    Arc::new(move || {
        let database = database.clone();
        Box::pin(async move {
            let answer = time::timeout(PING_TIMEOUT, database.ping()).await;
            let is_serving = answer.is_ok_and(|pong| pong.is_ok());
            if is_serving {
                database.check_writes().await;
            }
            is_serving
        })
    })
}

#[cfg(test)]
mod tests;
