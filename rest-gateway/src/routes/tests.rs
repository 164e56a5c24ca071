//! Tests of the whole gateway in process, without its core.

use std::{
    collections::HashSet,
    net::{IpAddr, Ipv4Addr, SocketAddr},
};

use axum::body::to_bytes;
use http::{HeaderMap, Request};
use petstore_caller::api_key::{ApiKey, Environment};
use petstore_clock::{Clock, UnixMillis};
use petstore_rate_limit::InProcessLimiter;
use proptest::prelude::*;
use serde_json::Value;
use tower::{BoxError, service_fn, util::BoxCloneSyncService};

use super::*;
use crate::GatewayOptions;

const PEER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 1);

const NOON: UnixMillis = UnixMillis::from_secs(1_795_176_000); // 2026-11-20T12:00:00Z

#[test]
fn the_state_of_a_request_is_small() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let _guard = runtime.enter();
    let app = gateway(&[]);
    // Each byte is moved several times while the request is answered, and rare work is kept elsewhere.
    let size = size_of_val(&app.respond(Request::new(Body::empty()), PEER.into()));
    assert!(size < 6_500, "{size} bytes");
}

struct Answer {
    status: u16,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Answer {
    fn header(&self, name: &str) -> &str {
        let mut fields = self.headers.get_all(name).iter();
        let only = fields.next().unwrap_or_else(|| panic!("{name} is missing"));
        assert!(fields.next().is_none(), "{name} is there twice");
        only.to_str().unwrap()
    }

    /// Returns the `code` of a body that is an Error and nothing else.
    fn code(&self) -> String {
        assert_eq!(self.header("content-type"), "application/json");
        let body: Value = serde_json::from_slice(&self.body).unwrap();
        let members: HashSet<&str> = body.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(members, HashSet::from(["code", "message", "status"]));
        assert_eq!(body["status"], self.status);
        body["code"].as_str().unwrap().to_owned()
    }
}

fn gateway(cors_origins: &[&str]) -> RestApp {
    RestApp::new(&without_core(cors_origins), Router::new())
}

fn without_core(cors_origins: &[&str]) -> Gateway {
    let (clock, _) = Clock::manual(NOON);
    let settings = GatewayOptions {
        cors_origins: cors_origins.iter().map(|origin| origin.parse().unwrap()).collect(),
        ..GatewayOptions::new(Environment::Production)
    };
    let away =
        service_fn(async |_| Err::<http::Response<tonic::body::Body>, BoxError>("no core here".into()));
    let limiter = Arc::new(InProcessLimiter::new(clock.clone()));
    Gateway::new(settings, BoxCloneSyncService::new(away), None, limiter, clock)
}

async fn ask(app: &impl App, method: &str, target: &str, fields: &[(&str, &str)]) -> Answer {
    ask_with(|request| app.answer(request, PEER.into()), method, target, fields).await
}

async fn ask_with<F: Future<Output = Response>>(
    app: impl FnOnce(Request<Body>) -> F,
    method: &str,
    target: &str,
    fields: &[(&str, &str)],
) -> Answer {
    let mut request = Request::builder().method(method).uri(target).header("host", "shop.example");
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    let response = app(request.body(Body::empty()).unwrap()).await;
    let (parts, body) = response.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap().to_vec();
    Answer { status: parts.status.as_u16(), headers: parts.headers, body }
}

/// Asserts the fields of every answer under `/v1`, and returns its remaining requests.
fn complete(answer: &Answer) -> u64 {
    assert_eq!(answer.header("cache-control"), "no-store");
    assert!(answer.header("x-request-id").len() >= 8);
    for name in ["ratelimit", "ratelimit-policy", "x-ratelimit-limit", "x-ratelimit-reset"] {
        assert!(!answer.header(name).is_empty());
    }
    answer.header("x-ratelimit-remaining").parse().unwrap()
}

#[tokio::test]
async fn without_a_key_every_path_and_method_is_401_and_counts_for_the_address() {
    let app = gateway(&[]);
    let mut remaining = 600;
    for path in ["/v1", "/v1/", "/v1/pets", "/v1/pets/1", "/v1/nothing", "/v1//"] {
        for method in ["GET", "POST", "DELETE", "TRACE", "PURGE"] {
            let answer = ask(&app, method, path, &[]).await;
            assert_eq!((answer.status, &*answer.code()), (401, "MISSING_API_KEY"), "{method} {path}");
            remaining -= 1;
            assert_eq!(complete(&answer), remaining);
            assert_eq!(answer.header("www-authenticate"), r#"Bearer realm="petstore""#);
        }
    }
    let head = ask(&app, "HEAD", "/v1/pets", &[]).await;
    assert_eq!((head.status, head.body.len(), complete(&head)), (401, 0, remaining - 1));
}

#[tokio::test]
async fn an_address_with_too_many_failures_gets_429() {
    let app = gateway(&[]);
    for _ in 0..600 {
        assert_eq!(ask(&app, "GET", "/v1/pets", &[]).await.status, 401);
    }
    let answer = ask(&app, "GET", "/v1/pets", &[]).await;
    assert_eq!((answer.status, &*answer.code(), complete(&answer)), (429, "RATE_LIMITED", 0));
    assert_eq!(answer.header("retry-after"), "60");
    assert_eq!(answer.header("x-ratelimit-reset"), (NOON.as_secs() + 60).to_string());
}

#[tokio::test]
async fn a_key_that_cannot_be_checked_is_503_and_counts_nothing() {
    let app = gateway(&[]);
    let bearer = format!("Bearer {}", ApiKey::generate(Environment::Production).expose());
    let answer = ask(&app, "GET", "/v1/pets", &[("authorization", &bearer)]).await;
    assert_eq!((answer.status, &*answer.code(), complete(&answer)), (503, "UNAVAILABLE", 600));
    assert_eq!(answer.header("retry-after"), "1");
}

#[tokio::test]
async fn faults_of_the_head_come_first_and_count_nothing() {
    let app = gateway(&[]);
    let host = ask(&app, "GET", "/v1/pets", &[("host", "twice.example")]).await;
    assert_eq!((host.status, &*host.code(), complete(&host)), (400, "INVALID_REQUEST", 600));
    let target = ask(&app, "GET", &format!("/v1/pets/{}", "1".repeat(8_192)), &[]).await;
    assert_eq!((target.status, &*target.code(), complete(&target)), (414, "URI_TOO_LONG", 600));
    assert_eq!(target.header("sunset"), "Thu, 05 Dec 2030 00:00:00 GMT");
    let fields = ask(&app, "OPTIONS", "/v1/pets", &[("x", "y"); 100]).await;
    assert_eq!((fields.status, &*fields.code(), complete(&fields)), (431, "HEADERS_TOO_LARGE", 600));
}

#[tokio::test]
async fn options_needs_no_key_and_counts_nothing() {
    let app = gateway(&[]);
    for (path, allow) in [
        ("/v1/pets", "GET, HEAD, POST, OPTIONS"),
        ("/v1/pets/1", "GET, HEAD, OPTIONS"),
        ("/v1/store/orders", "GET, HEAD, OPTIONS"),
    ] {
        let answer = ask(&app, "OPTIONS", path, &[]).await;
        assert_eq!((answer.status, answer.header("allow"), complete(&answer)), (204, allow, 600));
        assert!(answer.body.is_empty() && !answer.headers.contains_key("access-control-allow-origin"));
    }
    let unknown = ask(&app, "OPTIONS", "/v1/pets/", &[]).await;
    assert_eq!((unknown.status, &*unknown.code(), complete(&unknown)), (404, "ROUTE_NOT_FOUND", 600));
}

#[tokio::test]
async fn every_answer_of_the_deprecated_path_says_so() {
    let app = gateway(&[]);
    for (method, path) in [("GET", "/v1/pets/1"), ("OPTIONS", "/v1/pets/x"), ("PATCH", "/v1/pets/%2F")] {
        let answer = ask(&app, method, path, &[]).await;
        assert_eq!(answer.header("deprecation"), "@1764892800");
        let mut links = answer.headers.get_all("link").iter();
        assert!(links.any(|link| link == r#"</v1/pets?status=available>; rel="successor-version""#));
    }
    assert!(!ask(&app, "GET", "/v1/pets", &[]).await.headers.contains_key("deprecation"));
}

#[tokio::test]
async fn every_answer_of_the_experimental_path_says_so() {
    let app = gateway(&[]);
    for method in ["GET", "OPTIONS", "PATCH"] {
        let answer = ask(&app, method, "/v1/store/orders?limit=0", &[]).await;
        assert_eq!(answer.header("x-stability"), "experimental", "{method}");
    }
    assert!(!ask(&app, "GET", "/v1/pets", &[]).await.headers.contains_key("x-stability"));
}

#[tokio::test]
async fn outside_v1_only_the_openapi_document_is_served_and_nothing_is_counted() {
    let app = gateway(&[]);
    let document = ask(&app, "GET", "/openapi.json", &[]).await;
    assert_eq!((document.status, document.header("content-type")), (200, "application/json"));
    let document: Value = serde_json::from_slice(&document.body).unwrap();
    assert_eq!(document["info"]["version"], "1.0.0");
    assert!(ask(&app, "HEAD", "/openapi.json", &[]).await.body.is_empty());
    let wrong_method = ask(&app, "POST", "/openapi.json", &[]).await;
    assert_eq!((wrong_method.status, &*wrong_method.code()), (405, "METHOD_NOT_ALLOWED"));
    assert_eq!(wrong_method.header("allow"), "GET, HEAD, OPTIONS");
    for path in ["//", "/v2/pets", "/v10", "/pets"] {
        let answer = ask(&app, "GET", path, &[]).await;
        assert_eq!((answer.status, &*answer.code()), (404, "ROUTE_NOT_FOUND"), "{path}");
        assert!(!answer.headers.contains_key("x-ratelimit-limit"));
    }
}

#[tokio::test]
async fn a_valid_request_id_is_echoed() {
    let answer = ask(&gateway(&[]), "GET", "/v1/pets", &[("x-request-id", "order-66")]).await;
    assert_eq!(answer.header("x-request-id"), "order-66");
}

#[tokio::test]
async fn a_configured_origin_may_read_every_answer() {
    let app = gateway(&["https://shop.example"]);
    let origin = ("origin", "https://shop.example");
    let refused = ask(&app, "GET", "/v1/pets", &[origin]).await;
    assert_eq!((refused.status, refused.header("access-control-allow-origin")), (401, origin.1));
    let asked = ("access-control-request-method", "POST");
    let preflight = ask(&app, "OPTIONS", "/v1/pets", &[origin, asked]).await;
    assert_eq!(preflight.status, 204);
    assert_eq!(preflight.header("access-control-allow-methods"), "GET, HEAD, POST, OPTIONS");
}

#[tokio::test]
async fn every_outcome_of_a_route_is_a_complete_answer() {
    let (gateway, peer) = (Arc::clone(without_core(&[]).state()), PEER.into());
    let panics = async |_: Admitted| -> Response { panic!("a route panics") };
    let app = |request| pipeline::handle(&gateway, "http", request, &peer, panics);
    let answer = ask_with(app, "OPTIONS", "/v1/pets/1", &[]).await;
    assert_eq!((answer.status, &*answer.code(), complete(&answer)), (500, "INTERNAL", 600));
    assert_eq!(answer.header("deprecation"), "@1764892800");

    let in_plain_text = async |_: Admitted| {
        let fields = [("x-ratelimit-remaining", "7"), ("cache-control", "public")];
        (StatusCode::UNPROCESSABLE_ENTITY, fields, "plain text").into_response()
    };
    let app = |request| pipeline::handle(&gateway, "http", request, &peer, in_plain_text);
    let answer = ask_with(app, "OPTIONS", "/v1/pets", &[]).await;
    assert_eq!((answer.status, &*answer.code(), complete(&answer)), (500, "INTERNAL", 600));
}

#[test]
fn only_the_canonical_spelling_of_an_int64_names_a_pet() {
    let others =
        ["", "01", "+1", "-0", "1.0", "1e2", "0x1", "%201", "1%20", "x", "9223372036854775808", "١", "%FF"];
    for segment in others {
        assert_eq!(id_in_path(&format!("/v1/pets/{segment}")), None, "{segment}");
    }
    for (segment, id) in [("1", 1), ("0", 0), ("-5", -5), ("%31", 1), ("9223372036854775807", i64::MAX)] {
        assert_eq!(id_in_path(&format!("/v1/pets/{segment}")), Some(id));
    }
}

proptest! {
    #[test]
    fn every_int64_names_itself(id: i64) {
        prop_assert_eq!(id_in_path(&format!("/v1/pets/{id}")), Some(id));
    }

    #[test]
    fn no_path_makes_parsing_panic(path in "[/%0-9a-fA-F.+-]{0,40}") {
        let _ = id_in_path(&path);
    }
}
