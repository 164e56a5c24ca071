//! `/log-level`: shows and changes the filter of the log.

use std::net::SocketAddr;

use axum::{
    extract::{ConnectInfo, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use petstore_gateway::{admin_of, error_response};
use petstore_telemetry::logs;

use super::{Health, not_found};

pub(super) async fn get() -> Response {
    match logs::log() {
        Some(log) => log.filter().into_response(),
        None => not_found().await, // the log belongs to the program that embeds the service
    }
}

/// Changes the filter of the log to the one in the body, for an admin.
pub(super) async fn set(
    State(health): State<Health>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    headers: HeaderMap,
    filter: String,
) -> Response {
    let core = health.sources.get().and_then(|sources| sources.core.clone());
    let (Some(log), Some(core)) = (logs::log(), core) else { return not_found().await };
    let operator = match admin_of(core, &headers, peer.ip()).await {
        Ok(operator) => operator,
        Err(refusal) => return refusal,
    };
    match log.set_filter(filter.trim()) {
        Ok(()) => {
            tracing::warn!(operator, client = %peer.ip(), filter = filter.trim(), "changed what is logged");
            StatusCode::NO_CONTENT.into_response()
        }
        Err(invalid) => error_response(StatusCode::BAD_REQUEST, "INVALID_REQUEST", &invalid.to_string()),
    }
}
