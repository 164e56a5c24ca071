//! `GET /openapi.json`: the description of the interface, open to everybody.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use http::StatusCode;

use super::json;
use crate::gateway::GatewayState;

pub(crate) async fn get(State(gateway): State<Arc<GatewayState>>) -> Response {
    json(StatusCode::OK, gateway.openapi.clone())
}
