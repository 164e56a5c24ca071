//! The outermost layer: what every answer carries, whatever happened inside.

use std::{
    convert::Infallible,
    future::Future,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    panic::AssertUnwindSafe,
    sync::Arc,
};

use axum::{
    extract::{ConnectInfo, Request},
    response::{IntoResponse, Response},
};
use futures_util::FutureExt;
use http::{HeaderValue, Method, header, request::Parts};
use tower::{Service, ServiceExt};

use super::{
    admission::{self, Caller},
    head,
    observation::{Observation, Sender},
    rate_headers,
    request_id::{RequestId, X_REQUEST_ID},
};
use crate::{
    client_address::ClientAddress, cors, deprecation, error::ApiError, gateway::GatewayState, routes::usage,
    stability,
};

/// Answers a request: judges its head, admits it, lets `inner` route and handle it, and completes the answer.
///
/// The body is not touched before admission. Outside `/v1`, and for OPTIONS, which browsers send without
/// credentials (Fetch Standard), nobody is authenticated or counted.
pub(crate) async fn answer<S>(
    gateway: Arc<GatewayState>,
    inner: S,
    request: Request,
) -> Result<Response, Infallible>
where
    S: Service<Request, Response = Response, Error = Infallible>,
{
    let (mut parts, body) = request.into_parts();
    let observation = Observation::begin(&gateway, &parts);
    let versioned = is_versioned(parts.uri.path());
    let deprecated = deprecation::concerns(parts.uri.path());
    let stability = stability::of(parts.uri.path());
    let grant = cors::judge(&gateway.settings.cors_origins, &parts);
    let request_id = RequestId::of(&parts.headers, &gateway.clock);
    let address = client_address(&gateway, &parts);

    let (mut key, mut decision) = (None, None);
    let mut passage = head::check(&parts);
    if passage.is_ok() && versioned && parts.method != Method::OPTIONS {
        passage = match observation.within(unwinding(admission::admit(&gateway, &parts, address))).await {
            Ok(admission) => {
                (key, decision) = (admission.key, admission.decision);
                if let (Ok(()), Some(key)) = (&admission.verdict, &key) {
                    let caller = Caller { key: Arc::clone(key), request_id: request_id.clone() };
                    parts.extensions.insert(caller);
                }
                if let Some(limit_status) = admission.limit_status {
                    parts.extensions.insert(limit_status);
                }
                admission.verdict
            }
            Err(panicked) => Err(panicked),
        };
    }
    let counts_for = key.as_ref().map(|key| key.account_id).filter(|_| parts.uri.path() != usage::PATH);
    let is_get_pet = deprecated && matches!(parts.method, Method::GET | Method::HEAD);
    let answered = match passage {
        Ok(()) => observation.within(unwinding(inner.oneshot(Request::from_parts(parts, body)))).await,
        Err(refusal) => Err(refusal),
    };
    let mut response = match answered {
        Ok(Ok(response)) if versioned => with_error_body(response),
        Ok(Ok(response)) => response,
        Err(error) => error.into_response(),
    };

    if let Some(account_id) = counts_for {
        gateway.usage.count(account_id, response.status(), is_get_pet);
    }
    let headers = response.headers_mut();
    headers.insert(X_REQUEST_ID, request_id.as_header().clone());
    if versioned {
        let decision = match decision {
            Some(decision) => decision,
            None => observation.within(admission::peek(&gateway, address)).await,
        };
        rate_headers::write(&decision, headers);
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    if deprecated {
        deprecation::write(headers);
    }
    if let Some(stability) = stability {
        headers.insert(stability::X_STABILITY, stability.as_header());
    }
    if let Some(grant) = grant {
        grant.write(headers);
    }
    observation.end(&gateway, Sender { request_id: &request_id, key: key.as_deref(), address }, &response);
    Ok(response)
}

/// Whether the path belongs to the interface: `/v1` itself and all below it.
fn is_versioned(path: &str) -> bool {
    path.strip_prefix("/v1").is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The network that the request came from. Only a router that is called without a socket has no peer.
fn client_address(gateway: &GatewayState, parts: &Parts) -> ClientAddress {
    let peer = parts.extensions.get::<ConnectInfo<SocketAddr>>();
    let peer = peer.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |ConnectInfo(peer)| peer.ip());
    gateway.settings.trusted_proxies.client(peer, &parts.headers)
}

/// Turns a panic into an error, so that it ends one request and not the connection. What panicked, and where, is
/// said by the process's panic hook.
async fn unwinding<T>(future: impl Future<Output = T>) -> Result<T, ApiError> {
    AssertUnwindSafe(future).catch_unwind().await.map_err(|_| ApiError::Internal)
}

/// The response itself, unless it is a failure without an Error body: those are made by libraries, in plain text.
fn with_error_body(response: Response) -> Response {
    let json = HeaderValue::from_static("application/json");
    if response.status().is_success() || response.headers().get(header::CONTENT_TYPE) == Some(&json) {
        return response;
    }
    tracing::warn!(status = response.status().as_u16(), "replaced an answer that had no Error body");
    ApiError::in_place_of(response.status()).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interface_is_v1_and_all_below_it() {
        for path in ["/v1", "/v1/", "/v1/pets", "/v1//"] {
            assert!(is_versioned(path), "{path}");
        }
        for path in ["", "/", "/v10", "/v2/pets", "/openapi.json", "*", "/V1/pets", "v1"] {
            assert!(!is_versioned(path), "{path}");
        }
    }

    #[tokio::test]
    async fn a_panic_becomes_an_internal_error() {
        assert_eq!(unwinding(async { 1 }).await, Ok(1));
        let panicked = unwinding(async { panic!("a test panics") }).await;
        assert_eq!(panicked, Err::<(), _>(ApiError::Internal));
    }

    #[test]
    fn a_failure_in_plain_text_is_replaced_and_an_error_body_kept() {
        let replaced = with_error_body((http::StatusCode::PAYLOAD_TOO_LARGE, "too big").into_response());
        assert_eq!(replaced.status(), 413);
        assert_eq!(replaced.headers()[header::CONTENT_TYPE], "application/json");
        let odd = with_error_body(http::StatusCode::IM_A_TEAPOT.into_response());
        assert_eq!(odd.status(), 500);
        let kept = with_error_body(ApiError::MethodNotAllowed { allow: "GET" }.into_response());
        assert_eq!(kept.headers()[header::ALLOW], "GET");
    }
}
