//! The core's services on a socket, or for clients in the same process.

use std::{convert::Infallible, io, sync::Arc};

use futures_util::future::BoxFuture;
use petstore_database::PING_TIMEOUT;
use petstore_grpc_server::{Calls, GrpcServerLimits, Listener, Probe, Security, Served};
use petstore_proto::FILE_DESCRIPTOR_SET;
use tokio::time;
use tonic::service::Routes;
use tower::{BoxError, util::MapErr};

use crate::{
    Core,
    errors::PetStoreError,
    grpc::{BOUNDS, METHODS},
};

pub(crate) mod batch_service;

pub use crate::{grpc::of_operators, services};

/// The public and the internal services for a client in the same process: the same code, the same answers,
/// without a socket.
pub type InMemory = MapErr<Routes, fn(Infallible) -> BoxError>;

/// Returns these services for a client in the same process.
pub fn in_memory(services: Routes) -> InMemory {
    MapErr::new(services.prepare(), |never| match never {})
}

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
            time::timeout(PING_TIMEOUT, database.ping()).await.map_err(|_| "no answer within a second")??;
            database.check_writes().await;
            Ok(())
        })
    })
}

#[cfg(test)]
mod tests;
