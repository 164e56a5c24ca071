//! `grpc.health.v1.Health`: "serving" while the store answers.

use std::time::Duration;

use futures_util::FutureExt;
use petstore_proto::{
    admin::v1::admin_service_server,
    v1::{pet_store_server, store_service_server},
};
use tokio::time;
use tonic_health::{
    ServingStatus,
    pb::health_server::{Health, HealthServer},
    server::HealthReporter,
};

use super::methods::MAX_TOOL;
use crate::store::Store;

/// The server as a whole, and its public services.
const SERVICES: [&str; 4] = [
    "",
    pet_store_server::SERVICE_NAME,
    store_service_server::SERVICE_NAME,
    admin_service_server::SERVICE_NAME,
];

const INTERVAL: Duration = Duration::from_secs(1);
/// Timeout of a ping. A store that is slower counts as not serving.
const PING_TIMEOUT: Duration = Duration::from_secs(1);

/// Returns the health service, with its initial status, and the handle that changes the status.
pub(super) fn service(status: ServingStatus) -> (HealthServer<impl Health>, HealthReporter) {
    let (reporter, service) = tonic_health::server::health_reporter();
    let _ = report(&reporter, status).now_or_never(); // cannot wait: no other task has the reporter yet
    (service.max_decoding_message_size(MAX_TOOL), reporter)
}

/// Pings the store. Takes [`PING_TIMEOUT`] at most.
pub(super) async fn check(store: &Store) -> ServingStatus {
    match time::timeout(PING_TIMEOUT, store.ping()).await {
        Ok(Ok(())) => ServingStatus::Serving,
        Ok(Err(_)) | Err(_) => ServingStatus::NotServing,
    }
}

/// Pings the store every second, and reports changes of the status. Never returns.
pub(super) async fn watch(store: Store, reporter: HealthReporter, mut last: ServingStatus) {
    loop {
        time::sleep(INTERVAL).await;
        let status = check(&store).await;
        if status == last {
            continue;
        }
        if status == ServingStatus::Serving {
            tracing::info!("the store answers again");
        } else {
            tracing::error!("the store does not answer");
        }
        report(&reporter, status).await;
        last = status;
    }
}

/// Reports that the server is going away, and ends the streams of clients that watch, which would hold up the
/// drain.
pub(super) async fn mark_not_serving(mut reporter: HealthReporter) {
    report(&reporter, ServingStatus::NotServing).await;
    for service in SERVICES {
        reporter.clear_service_status(service).await;
    }
}

async fn report(reporter: &HealthReporter, status: ServingStatus) {
    for service in SERVICES {
        reporter.set_service_status(service, status).await;
    }
}
