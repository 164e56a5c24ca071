//! The admin port: liveness, readiness, metrics and the log level.

mod readiness;

use std::{
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::{Arc, OnceLock},
};

use axum::{
    Router,
    body::Bytes,
    extract::{ConnectInfo, Request, State},
    http::{
        HeaderMap, HeaderValue, StatusCode,
        header::{CONTENT_TYPE, HOST, RETRY_AFTER},
    },
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{any, get},
};
use petstore_admin_web::{
    CONSOLE_HEALTH, ProcessHealth, admin_router, answer_operator, check_operators_head, method_not_allowed,
    record_log_level, refuse_foreign_pages, with_whole_body,
};
use petstore_caller::headers::only_field;
use petstore_gateway::{Gateway, error_response};
use petstore_settings::host_name;
use petstore_telemetry::{
    logs,
    metrics::{Collectors, Exposition},
};
use tokio::sync::{Semaphore, watch};
use tower::ServiceExt;

pub(super) use self::readiness::Sources;
use self::readiness::{Readiness, ReadinessMetrics};
use super::Phase;

/// Health of the process, and the admin API of its gateway. The port is served before the parts exist.
#[derive(Clone)]
pub(crate) struct Health {
    phase: watch::Receiver<Phase>,
    sources: Arc<OnceLock<Sources>>,
    admin_api: Arc<OnceLock<Router>>,
    metrics: ReadinessMetrics,
}

impl Health {
    pub(crate) fn new(phase: watch::Receiver<Phase>) -> Self {
        let (sources, admin_api, metrics) = Default::default();
        Self { phase, sources, admin_api, metrics }
    }

    /// Returns the metrics.
    pub(crate) fn metrics(&self) -> Collectors {
        self.metrics.collectors()
    }

    /// Sets the parts, once they exist.
    pub(crate) fn set_sources(&self, sources: Sources) {
        // An error means that they are set already, and they do not change.
        let _ = self.sources.set(sources);
    }

    /// Returns the gateway of this process, if it has one, once it exists.
    fn gateway(&self) -> Option<&Gateway> {
        self.sources.get()?.gateway.as_ref()
    }

    async fn readiness(&self) -> Readiness {
        let parts = match self.sources.get() {
            Some(sources) => sources.parts().await,
            None => Vec::new(),
        };
        Readiness::new(*self.phase.borrow(), parts)
    }
}

/// Returns the routes of the admin port. `/livez` and `/readyz` answer under any host name. The others answer
/// only under those in `names` and under [those that cannot be registered](check_host), and to at most
/// `at_once` requests, so that the first two always have connections.
pub(crate) fn router(health: Health, metrics: Exposition, names: Vec<String>, at_once: usize) -> Router {
    let show_metrics = async move |State(health): State<Health>| {
        health.metrics.update(&health.readiness().await);
        ([(CONTENT_TYPE, Exposition::MEDIA_TYPE)], metrics.text())
    };
    let mut restricted = Router::new()
        .route("/metrics", get(show_metrics))
        .route("/log-level", get(log_level).put(set_log_level));
    for path in ["/admin/v1/{*path}", "/", "/console", "/console/", "/console/{*path}"] {
        restricted = restricted.route(path, any(admin_api));
    }
    let restricted = restricted
        .fallback(not_found)
        .method_not_allowed_fallback(async || method_not_allowed())
        .layer(middleware::from_fn_with_state(Arc::new(Semaphore::new(at_once)), bounded))
        .layer(middleware::from_fn(refuse_foreign_pages))
        .layer(middleware::from_fn_with_state(names.into(), check_host))
        .layer(middleware::from_fn(check_operators_head))
        .layer(middleware::from_fn_with_state(health.clone(), recorded));
    Router::new()
        .route("/livez", get(async || "ok"))
        .route("/readyz", get(readyz))
        .method_not_allowed_fallback(async || method_not_allowed())
        .layer(middleware::from_fn(check_operators_head))
        .merge(restricted)
        .with_state(health)
}

/// Forwards a request, which the gateway names and logs if this is its port. Metrics are not asked for by
/// operators.
async fn recorded(State(health): State<Health>, request: Request, next: Next) -> Response {
    match health.gateway().filter(|_| request.uri().path() != "/metrics") {
        Some(gateway) => answer_operator(gateway, request, next).await,
        None => next.run(request).await,
    }
}

/// Forwards a request with its whole body, unless there are too many.
async fn bounded(State(slots): State<Arc<Semaphore>>, request: Request, next: Next) -> Response {
    let request = match with_whole_body(request).await {
        Ok(request) => request,
        Err(refusal) => return refusal,
    };
    if let Ok(_slot) = slots.try_acquire() {
        return next.run(request).await;
    }
    let message = "the admin port is overloaded; try again in a second";
    let refusal = error_response(StatusCode::SERVICE_UNAVAILABLE, "OVERLOADED", message);
    ([(RETRY_AFTER, "1")], refusal).into_response()
}

/// Forwards requests whose host name is safe, which protects from DNS rebinding: a web page cannot read the
/// responses of another site, but it can point its own host name to an address of the operator's machine or
/// network, and the browser then treats the admin port as the page's own site. It still sends the name in
/// Host. So the admin port answers only under names that an attacker cannot register.
///
/// HTTP/2 has the name in the target, from which it is copied into Host: the console names its cookies by
/// that.
async fn check_host(State(known): State<Arc<[String]>>, mut request: Request, next: Next) -> Response {
    // A target in absolute form comes before Host (RFC 9112 §3.2.2). Browsers always send one of the two.
    let host = match (request.uri().authority(), only_field(request.headers(), HOST)) {
        (Some(authority), _) => Some(authority.as_str()),
        (None, Ok(host)) => host.map(|host| host.to_str().unwrap_or_default()),
        (None, Err(_)) => Some(""),
    };
    if host.is_none_or(|host| is_safe(host, &known)) {
        if let Some(authority) = request.uri().authority()
            && let Ok(host) = HeaderValue::from_str(authority.as_str())
        {
            request.headers_mut().entry(HOST).or_insert(host);
        }
        return next.run(request).await;
    }
    let message = "the admin port answers under an IP address, localhost, a name without a dot, or a name \
                   of --admin-host";
    error_response(StatusCode::MISDIRECTED_REQUEST, "INVALID_REQUEST", message)
}

/// Returns `true` if an attacker cannot register the host, which is a name or an address, with or without a
/// port.
fn is_safe(host: &str, known: &[String]) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    if let Some(address) = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return address.parse::<Ipv6Addr>().is_ok();
    }
    if name.parse::<Ipv4Addr>().is_ok() {
        return true;
    }
    host_name(name)
        .is_ok_and(|name| !name.contains('.') || name.ends_with(".localhost") || known.contains(&name))
}

async fn readyz(State(health): State<Health>) -> Response {
    let readiness = health.readiness().await;
    let status = if readiness.takes_requests() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, [(CONTENT_TYPE, "application/json")], readiness.body().to_string()).into_response()
}

/// Serves the admin API and the console, if this is the port of a gateway. They are created with the first
/// request because they take memory that few gateways need.
async fn admin_api(State(health): State<Health>, mut request: Request) -> Response {
    let Some(gateway) = health.gateway() else { return not_found().await };
    if request.uri().path() == CONSOLE_HEALTH {
        request.extensions_mut().insert(ProcessHealth(health.readiness().await.body()));
    }
    let router = health.admin_api.get_or_init(|| admin_router(gateway));
    router.clone().oneshot(request).await.unwrap_or_else(|never| match never {})
}

async fn log_level() -> Response {
    match logs::log() {
        Some(log) => log.filter().into_response(),
        None => not_found().await, // the log belongs to the program that embeds the service
    }
}

const TOO_LONG: &str = "must be at most 1000 bytes long, without a key";

/// Changes the filter of the log to the one in the body, for an admin. The change is in the audit log first.
async fn set_log_level(
    State(health): State<Health>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let filter = String::from_utf8_lossy(&body); // no level has the character that replaces invalid bytes
    let filter = filter.trim();
    let core = health.sources.get().and_then(|sources| sources.core.clone());
    let (Some(log), Some(core)) = (logs::log(), core) else { return not_found().await };
    // The core refuses an empty filter, once it has judged the token.
    // One that is too long, which the core refuses too, is not parsed before the token is judged.
    let is_short = filter.len() <= 1_000;
    let wrong = if is_short { logs::parse_filter(filter).err() } else { Some(TOO_LONG) };
    let filters = [&*log.filter(), if wrong.is_some() { "" } else { filter }];
    let client = health.gateway().map_or(peer.ip(), |gateway| gateway.client_of(peer.ip(), &headers));
    let operator = match (record_log_level(core, &headers, client, filters).await, wrong) {
        (Ok(operator), _) => operator,
        (Err(refusal), rule) if refusal.status() == StatusCode::BAD_REQUEST => {
            let rule = rule.unwrap_or(TOO_LONG);
            return error_response(StatusCode::BAD_REQUEST, "INVALID_REQUEST", rule);
        }
        (Err(refusal), _) => return refusal,
    };
    // The line is in the log if the old filter or the new one shows it.
    let write = || tracing::warn!(operator, %client, filter, "changed the log filter");
    let is_shown = tracing::enabled!(tracing::Level::WARN);
    if is_shown {
        write();
    }
    if let Err(reason) = log.set_filter(filter) {
        return error_response(StatusCode::BAD_REQUEST, "INVALID_REQUEST", reason);
    }
    if !is_shown {
        write();
    }
    StatusCode::NO_CONTENT.into_response()
}

async fn not_found() -> Response {
    let paths = "the admin port has /livez, /readyz, /metrics, /log-level, and that of a gateway \
                 /admin/v1 and /console";
    error_response(StatusCode::NOT_FOUND, "ROUTE_NOT_FOUND", paths)
}

#[cfg(test)]
mod tests {
    use axum::{
        body::{Body, to_bytes},
        http::Request,
    };
    use serde_json::{Value, json};

    use super::*;

    async fn answer_to(phase: &watch::Sender<Phase>, method: &str, path: &str) -> (u16, String) {
        let request = Request::builder().method(method).uri(path).header("host", "localhost");
        let request = request.body(Body::empty()).unwrap();
        let response = router(Health::new(phase.subscribe()), Exposition::default(), Vec::new(), 1)
            .oneshot(request)
            .await
            .unwrap();
        let status = response.status().as_u16();
        let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn a_process_lives_from_its_start_to_its_end() {
        let phase = watch::Sender::new(Phase::Starting);
        for next in [Phase::Starting, Phase::Serving, Phase::Draining, Phase::ClosingAdmin] {
            phase.send_replace(next);
            assert_eq!(answer_to(&phase, "GET", "/livez").await, (200, "ok".to_owned()));
        }
    }

    #[tokio::test]
    async fn everything_else_is_a_404_in_json() {
        let phase = watch::Sender::new(Phase::Starting);
        for (method, path) in [("GET", "/"), ("GET", "/readyz/"), ("GET", "/v1/pets"), ("POST", "/v1/pets")] {
            let (status, body) = answer_to(&phase, method, path).await;
            let body: Value = serde_json::from_str(&body).unwrap();
            assert_eq!((status, &body["code"]), (404, &json!("ROUTE_NOT_FOUND")), "{method} {path}");
        }
    }

    #[test]
    fn a_host_name_that_others_could_register_is_refused() {
        let known = [host_name("Gateway.Internal").unwrap()];
        for safe in [
            "127.0.0.1",
            "127.0.0.1:9090",
            "10.1.2.3:80",
            "[::1]",
            "[fd00::1]:9090",
            "localhost",
            "LOCALHOST:9090",
            "petstore.localhost",
            "gateway-1:9090",
            "gateway.internal",
            "GATEWAY.internal.:9090",
        ] {
            assert!(is_safe(safe, &known), "{safe}");
        }
        for unsafe_host in [
            "",
            ":9090",
            "evil.example",
            "evil.example:9090",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "other.internal",
            "[::1",
            "[evil.example]",
            "a b",
            "a@b",
        ] {
            assert!(!is_safe(unsafe_host, &known), "{unsafe_host}");
        }
    }
}
