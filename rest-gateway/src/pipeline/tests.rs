//! Tests of the router and the pipeline in process, without a core.

use std::net::{Ipv4Addr, SocketAddr};

use axum::{
    body::{Body, to_bytes},
    response::IntoResponse,
};
use http::{HeaderMap, Request, StatusCode};
use parking_lot::Mutex;
use petstore_caller::api_key::Environment;
use petstore_clock::{Clock, UnixMillis};
use serde_json::Value;
use tower::{BoxError, ServiceExt, service_fn, util::BoxCloneSyncService};

use super::*;
use crate::{
    GatewayOptions,
    deprecation::GET_PET_REMOVED_AT,
    request::{Caller, request_id},
    unknown_input::UnknownInput,
};

/// Returns a gateway at this time whose core is away, and whose responses pages of shop.example may read.
fn gateway(now: UnixMillis) -> Arc<GatewayState> {
    let (clock, _) = Clock::manual(now);
    let away =
        service_fn(async |_| Err::<http::Response<tonic::body::Body>, BoxError>("no core here".into()));
    let cors_origins = vec!["https://shop.example".parse().unwrap()];
    let options = GatewayOptions { cors_origins, ..GatewayOptions::new(Environment::Production) };
    let gateway = Gateway::new(options, BoxCloneSyncService::new(away), None, None, clock);
    Arc::clone(gateway.state())
}

/// Returns the `code` of a body that is an Error and nothing else.
async fn code(response: Response) -> String {
    let (parts, body) = response.into_parts();
    let error: Value = serde_json::from_slice(&to_bytes(body, usize::MAX).await.unwrap()).unwrap();
    assert_eq!(
        (error["status"].as_u64(), error.as_object().unwrap().len()),
        (Some(parts.status.as_u16().into()), 3)
    );
    error["code"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn every_outcome_of_a_route_is_a_complete_response() {
    let (gateway, peer) =
        (gateway(UnixMillis::from_secs(1_795_176_000)), SocketAddr::from((Ipv4Addr::LOCALHOST, 1)).into());
    let panics = Router::new().fallback(async || -> Response { panic!("a route panics") });
    let in_plain_text = Router::new().fallback(async || {
        let fields = [("x-ratelimit-remaining", "7"), ("cache-control", "public")];
        (StatusCode::UNPROCESSABLE_ENTITY, fields, "plain text").into_response()
    });
    for router in [panics, in_plain_text] {
        let request =
            Request::options("/v1/pets/1").header("host", "shop.example").body(Body::empty()).unwrap();
        let response = handle(&gateway, "http", request, &peer, router).await;
        for (name, value) in [
            ("cache-control", "no-store"),
            ("deprecation", "@1764892800"),
            ("x-ratelimit-remaining", "600"),
            ("content-type", "application/json"),
        ] {
            let fields = response.headers().get_all(name).iter().collect::<Vec<_>>();
            assert_eq!(fields, [value], "{name}");
        }
        assert_eq!(code(response).await, "INTERNAL");
    }
}

#[tokio::test]
async fn a_page_may_send_a_request_to_an_unknown_path_and_read_its_error() {
    let gateway = gateway(UnixMillis(0));
    let router = crate::router().fallback(async || ApiError::RouteNotFound).with_state(Arc::clone(&gateway));
    for (method, status) in [("OPTIONS", 204), ("GET", 401)] {
        let request = Request::builder().method(method).uri("/v1/nothing").header("host", "shop.example");
        let request = request.header("origin", "https://shop.example");
        let request = request.header("access-control-request-method", "GET").body(Body::empty()).unwrap();
        let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, 1)).into();
        let response = handle(&gateway, "http", request, &peer, router.clone()).await;
        let allowed = &response.headers()["access-control-allow-origin"];
        assert_eq!((response.status().as_u16(), allowed.as_bytes()), (status, &b"https://shop.example"[..]));
    }
}

#[tokio::test]
async fn other_methods_are_refused_with_the_allowed_ones_which_options_lists() {
    let router = crate::router().with_state(gateway(UnixMillis(0)));
    for (path, allow) in [
        ("/v1/pets", "GET, HEAD, POST, OPTIONS"),
        ("/v1/pets/x", "GET, HEAD, OPTIONS"),
        ("/v1/store/orders", "GET, HEAD, OPTIONS"),
        ("/v1/usage", "GET, HEAD, OPTIONS"),
        ("/openapi.json", "GET, HEAD, OPTIONS"),
    ] {
        for method in ["PUT", "DELETE", "TRACE", "PROPFIND", "get", "OPTIONS"] {
            let request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
            let response = router.clone().oneshot(request).await.unwrap();
            assert_eq!(response.status().as_u16(), if method == "OPTIONS" { 204 } else { 405 });
            assert_eq!(response.headers()["allow"], allow, "{method} {path}");
        }
    }
}

/// So the order of a handler's arguments is that of docs/contract.md, 4.1.
#[tokio::test]
async fn of_two_faults_the_response_names_the_one_of_the_earlier_step() {
    let large = " ".repeat(65_537);
    let (json, text) = (("content-type", "application/json"), ("content-type", "text/plain"));
    let (strict, no_key) = (("prefer", "handling=strict"), ("idempotency-key", "a b"));
    let (removed_at, now) = (GET_PET_REMOVED_AT, UnixMillis::from_secs(1_795_176_000));
    for (at, method, target, fields, body, expected) in [
        (removed_at, "GET", "/v1/pets/x?y", &[strict][..], "", "OPERATION_REMOVED"),
        (now, "GET", "/v1/pets/x?y", &[strict], "", "UNKNOWN_INPUT"),
        (now, "GET", "/v1/pets/x?y", &[], "", "PET_NOT_FOUND"),
        (now, "GET", "/v1/pets?limit=0&cursor=&y", &[strict], "", "UNKNOWN_INPUT"),
        (now, "GET", "/v1/pets?limit=0&cursor=&y", &[], "", "INVALID_PARAMETER"),
        (now, "GET", "/v1/store/orders?cursor=&status=x", &[strict], "", "UNKNOWN_INPUT"),
        (now, "GET", "/v1/store/orders?cursor=&status=x", &[], "", "INVALID_CURSOR"),
        (now, "GET", "/v1/usage?y", &[strict], "", "UNKNOWN_INPUT"),
        (now, "POST", "/v1/pets?y", &[text, strict, no_key], &large, "UNSUPPORTED_MEDIA_TYPE"),
        (now, "POST", "/v1/pets?y", &[json, strict, no_key], &large, "BODY_TOO_LARGE"),
        (now, "POST", "/v1/pets?y", &[strict, no_key], "{", "UNKNOWN_INPUT"),
        (now, "POST", "/v1/pets", &[strict, no_key], r#"{"y":1}"#, "UNKNOWN_INPUT"),
        (now, "POST", "/v1/pets", &[no_key], r#"{"y":1}"#, "INVALID_IDEMPOTENCY_KEY"),
        (now, "POST", "/v1/pets", &[no_key], "{", "INVALID_IDEMPOTENCY_KEY"),
        (now, "POST", "/v1/pets", &[], r#"{"name":1,"name":1}"#, "MALFORMED_JSON"),
        (now, "POST", "/v1/pets", &[], r#"{"y":1}"#, "VALIDATION_FAILED"),
        (now, "POST", "/v1/pets", &[], r#"{"name":"Rex","categoryId":1}"#, "UNAVAILABLE"),
    ] {
        let mut request = Request::builder().method(method).uri(target);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let mut request = request.body(Body::from(body.to_owned())).unwrap();
        let unknown = Arc::new(Mutex::new(UnknownInput::new(request.headers())));
        let request_id = request_id(&HeaderMap::new(), &Clock::system());
        request.extensions_mut().insert(unknown);
        request.extensions_mut().insert(Caller { account_id: 1, request_id, limits: None });
        let response = crate::router().with_state(gateway(at)).oneshot(request).await.unwrap();
        assert_eq!(code(response).await, expected, "{method} {target} {fields:?} {body:.20}");
    }
}
