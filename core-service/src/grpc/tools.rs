//! Services for tools: health, which follows the store (`grpc.health.v1.Health`), and reflection of the
//! public contract (`grpc.reflection.v1` and `v1alpha`), for tools such as grpcurl.

use std::{convert::Infallible, time::Duration};

use petstore_proto::{
    FILE_DESCRIPTOR_SET,
    admin::v1::admin_service_server,
    v1::{pet_store_server, store_service_server},
};
use prost::Message;
use prost_types::FileDescriptorSet;
use tokio::time;
use tonic::service::Routes;
use tonic_health::{ServingStatus, server::HealthReporter};
use tonic_reflection::server::Builder;

use super::limits::LIMITS;
use crate::store::Store;

/// The server as a whole, and its public services.
const SERVICES: [&str; 4] = [
    "",
    pet_store_server::SERVICE_NAME,
    store_service_server::SERVICE_NAME,
    admin_service_server::SERVICE_NAME,
];

/// Reporter of the health of the store.
pub(super) struct Health {
    store: Store,
    reporter: HealthReporter,
    last: ServingStatus,
}

/// Adds health, with its initial status, and reflection.
pub(super) async fn add_to(routes: Routes, store: Store) -> (Routes, Health) {
    let (reporter, service) = tonic_health::server::health_reporter();
    let mut health = Health { store, reporter, last: ServingStatus::Unknown };
    health.update().await;
    let routes = routes.add_service(service.max_decoding_message_size(LIMITS.tool_message));
    (with_reflection(routes), health)
}

impl Health {
    /// Pings the store every second until `shutdown`, and reports changes of its status. Then reports that
    /// the server is going away, and ends the streams of clients that watch, which would hold up the drain.
    pub(super) async fn follow(mut self, shutdown: impl Future<Output = ()>) {
        tokio::select! {
            never = self.watch() => match never {},
            () = shutdown => {}
        }
        self.report(ServingStatus::NotServing).await;
        for service in SERVICES {
            self.reporter.clear_service_status(service).await;
        }
    }

    async fn watch(&mut self) -> Infallible {
        loop {
            time::sleep(Duration::from_secs(1)).await;
            let last = self.last;
            self.update().await;
            match self.last {
                status if status == last => {}
                ServingStatus::Serving => tracing::info!("the store answers again"),
                _ => tracing::error!("the store does not answer"),
            }
        }
    }

    /// Pings the store, and reports its status if that has changed. A store that takes longer than a second
    /// counts as not serving.
    async fn update(&mut self) {
        let answer = time::timeout(Duration::from_secs(1), self.store.ping()).await;
        let is_serving = answer.is_ok_and(|pong| pong.is_ok());
        let status = if is_serving { ServingStatus::Serving } else { ServingStatus::NotServing };
        if status != self.last {
            self.report(status).await;
            self.last = status;
        }
    }

    async fn report(&self, status: ServingStatus) {
        for service in SERVICES {
            self.reporter.set_service_status(service, status).await;
        }
    }
}

/// Adds reflection. It is only a convenience, so a fault in it stops nothing else.
fn with_reflection(routes: Routes) -> Routes {
    let Ok(mut public) = FileDescriptorSet::decode(FILE_DESCRIPTOR_SET) else {
        tracing::error!("reflection is off: the descriptors cannot be read");
        return routes;
    };
    public.file.retain(|file| !file.package().starts_with("petstore.internal."));
    let builder = || {
        Builder::configure()
            .register_file_descriptor_set(public.clone())
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    match (builder().build_v1(), builder().build_v1alpha()) {
        (Ok(v1), Ok(v1alpha)) => routes
            .add_service(v1.max_decoding_message_size(LIMITS.tool_message))
            .add_service(v1alpha.max_decoding_message_size(LIMITS.tool_message)),
        (Err(error), _) | (_, Err(error)) => {
            tracing::error!(%error, "reflection is off: the descriptors cannot be read");
            routes
        }
    }
}
