//! `GET /openapi.json`: the description of the interface, open to everybody.

use std::sync::Arc;

use axum::{
    extract::State,
    response::{AppendHeaders, IntoResponse},
};
use http::{HeaderMap, HeaderName, HeaderValue, header};

use crate::gateway::GatewayState;

/// Kept, but asked for each time: a new release shows at once, and an unchanged document costs a 304.
const REVALIDATED: (HeaderName, HeaderValue) = (header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));

pub(crate) async fn get(State(gateway): State<Arc<GatewayState>>, headers: HeaderMap) -> impl IntoResponse {
    (AppendHeaders([REVALIDATED]), gateway.openapi.answer(&headers))
}
