//! `grpc.health.v1.Health`: whether the store answers.

use std::time::Duration;

use futures_util::FutureExt;
use petstore_proto::v1::{pet_store_server, store_service_server};
use tokio::time;
use tonic_health::{
    ServingStatus,
    pb::health_server::{Health, HealthServer},
    server::HealthReporter,
};

use crate::store::Store;

/// The server as a whole, and its public services.
const SERVICES: [&str; 3] = ["", pet_store_server::SERVICE_NAME, store_service_server::SERVICE_NAME];

const INTERVAL: Duration = Duration::from_secs(1);
/// A store that is slower than this does not serve.
const PATIENCE: Duration = Duration::from_secs(1);

/// The largest question, which is a service's name: anybody may ask.
const MAX_MESSAGE: usize = 1024;

/// The service, what it says until it is told otherwise, and what tells it.
pub(super) fn service(status: ServingStatus) -> (HealthServer<impl Health>, HealthReporter) {
    let (reporter, service) = tonic_health::server::health_reporter();
    let _ = tell(&reporter, status).now_or_never(); // waits for a lock that nobody else has yet
    (service.max_decoding_message_size(MAX_MESSAGE), reporter)
}

/// Asks the store. It takes [`PATIENCE`] at most.
pub(super) async fn ask(store: &Store) -> ServingStatus {
    match time::timeout(PATIENCE, store.ping()).await {
        Ok(Ok(())) => ServingStatus::Serving,
        Ok(Err(_)) | Err(_) => ServingStatus::NotServing,
    }
}

/// Asks the store every second, and tells when it is no longer as it was told. Never ends.
pub(super) async fn watch(store: Store, reporter: HealthReporter, mut told: ServingStatus) {
    loop {
        time::sleep(INTERVAL).await;
        let status = ask(&store).await;
        if status == told {
            continue;
        }
        if status == ServingStatus::Serving {
            tracing::info!("the store answers again");
        } else {
            tracing::error!("the store does not answer");
        }
        tell(&reporter, status).await;
        told = status;
    }
}

/// Says that the server is going away, and lets go of the clients that watch: their open streams would hold up
/// the drain.
pub(super) async fn say_goodbye(mut reporter: HealthReporter) {
    tell(&reporter, ServingStatus::NotServing).await;
    for service in SERVICES {
        reporter.clear_service_status(service).await;
    }
}

async fn tell(reporter: &HealthReporter, status: ServingStatus) {
    for service in SERVICES {
        reporter.set_service_status(service, status).await;
    }
}
