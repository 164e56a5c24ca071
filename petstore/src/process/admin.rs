//! The admin port: liveness, readiness, metrics and the log level.

mod host;

use std::{
    net::SocketAddr,
    sync::{Arc, OnceLock},
    time::Duration,
};

use axum::{
    Router,
    body::Bytes,
    extract::{ConnectInfo, Request, State},
    http::{
        HeaderMap, StatusCode,
        header::{CONTENT_TYPE, RETRY_AFTER},
    },
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{any, get},
};
use petstore_core::store::Store;
use petstore_gateway::{
    Gateway, PartState, admin_of, admin_router, answer_operator, core_client::CoreTransport, error_response,
    with_whole_body,
};
use petstore_telemetry::{
    logs,
    metrics::{Collectors, Exposition, IntGauge, IntGaugeVec, gauge, gauges},
};
use serde_json::{Map, Value, json};
use tokio::{
    sync::{Semaphore, watch},
    time::timeout,
};
use tower::ServiceExt;

use super::Phase;
use crate::settings::HostName;

/// Timeout of a ping. A database that takes longer to answer is down.
const PING_TIMEOUT: Duration = Duration::from_secs(1);

/// Parts that the admin port reports. A process has a gateway, a store, or both.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sources {
    /// Core that checks operators' tokens.
    pub(crate) core: Option<CoreTransport>,
    pub(crate) gateway: Option<Gateway>,
    pub(crate) store: Option<Store>,
}

/// Readiness that `/readyz` reports.
#[derive(Clone, Debug)]
struct Readiness {
    status: PartState,
    /// Parts that the process has, by name.
    parts: Vec<(&'static str, PartState)>,
}

impl Sources {
    /// Returns the state of each part that the process has.
    async fn states(&self) -> Vec<(&'static str, PartState)> {
        let database = match &self.store {
            None => None,
            Some(store) => match timeout(PING_TIMEOUT, store.ping()).await {
                Ok(Ok(())) if store.is_damaged() => Some(PartState::Degraded),
                Ok(Ok(())) => Some(PartState::Ok),
                Ok(Err(_)) | Err(_) => Some(PartState::Down),
            },
        };
        let (core, limiter) = self.gateway.as_ref().map(Gateway::readiness).unzip();
        let parts = [("core", core), ("database", database), ("limiter", limiter)];
        parts.into_iter().filter_map(|(name, state)| Some((name, state?))).collect()
    }
}

impl Readiness {
    /// Creates the readiness. A process is as ready as its worst part, and down while it starts and while it
    /// stops.
    fn new(phase: Phase, parts: Vec<(&'static str, PartState)>) -> Self {
        let worst = parts.iter().map(|(_, state)| *state).max().unwrap_or(PartState::Ok);
        Self { status: if phase == Phase::Serving { worst } else { PartState::Down }, parts }
    }

    fn takes_requests(&self) -> bool {
        self.status != PartState::Down
    }

    /// Returns a body such as `{"status":"ok","parts":{"core":"ok","database":"ok","limiter":"ok"}}`.
    fn body(&self) -> Value {
        let parts: Map<_, _> =
            self.parts.iter().map(|(name, state)| ((*name).to_owned(), state.to_string().into())).collect();
        json!({ "status": self.status.to_string(), "parts": parts })
    }
}

/// Health of the process, and the admin API of its gateway. The port is served before the parts exist.
#[derive(Clone, Debug)]
pub(crate) struct Health {
    phase: watch::Receiver<Phase>,
    sources: Arc<OnceLock<Sources>>,
    admin_api: Arc<OnceLock<Router>>,
    ready: IntGauge,
    parts: IntGaugeVec,
}

impl Health {
    pub(crate) fn new(phase: watch::Receiver<Phase>) -> Self {
        let ready = gauge("petstore_ready", "1 while /readyz answers 200.");
        let parts =
            gauges("petstore_part_up", "1 while the part works; /readyz has the same parts.", &["part"]);
        Self { phase, sources: Arc::default(), admin_api: Arc::default(), ready, parts }
    }

    /// Returns the metrics.
    pub(crate) fn metrics(&self) -> Collectors {
        vec![Box::new(self.ready.clone()), Box::new(self.parts.clone())]
    }

    /// Updates the metrics.
    async fn update_metrics(&self) {
        let readiness = self.readiness().await;
        self.ready.set(readiness.takes_requests().into());
        for (part, state) in &readiness.parts {
            self.parts.with_label_values(&[part]).set((*state != PartState::Down).into());
        }
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
            Some(sources) => sources.states().await,
            None => Vec::new(),
        };
        Readiness::new(*self.phase.borrow(), parts)
    }
}

/// Returns the routes of the admin port. `/livez` and `/readyz` answer under any host name. The others answer
/// only under those in `names` and under [those that cannot be registered](host), and to at most `at_once`
/// requests, so that the first two always have connections.
pub(crate) fn router(health: Health, metrics: Exposition, names: Vec<HostName>, at_once: usize) -> Router {
    let show_metrics = async move |State(health): State<Health>| {
        health.update_metrics().await;
        ([(CONTENT_TYPE, Exposition::MEDIA_TYPE)], metrics.text())
    };
    let mut restricted = Router::new()
        .route("/metrics", get(show_metrics))
        .route("/log-level", get(log_level).put(set_log_level));
    for path in ["/admin/v1/{*path}", "/", "/console", "/console/", "/console/{*path}"] {
        restricted = restricted.route(path, any(admin_api));
    }
    let restricted = restricted
        .layer(middleware::from_fn_with_state(Arc::new(Semaphore::new(at_once)), bounded))
        .layer(middleware::from_fn_with_state(names.into(), host::check))
        .layer(middleware::from_fn_with_state(health.clone(), recorded));
    Router::new()
        .route("/livez", get(async || "ok"))
        .route("/readyz", get(readyz))
        .merge(restricted)
        .fallback(not_found)
        .method_not_allowed_fallback(async || {
            let message = "this path does not serve this method";
            error_response(StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED", message)
        })
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

async fn readyz(State(health): State<Health>) -> Response {
    let readiness = health.readiness().await;
    let status = if readiness.takes_requests() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, [(CONTENT_TYPE, "application/json")], readiness.body().to_string()).into_response()
}

/// Serves the admin API and the console, if this is the port of a gateway. They are created with the first
/// request because they take memory that few gateways need.
async fn admin_api(State(health): State<Health>, request: Request) -> Response {
    let Some(gateway) = health.gateway() else { return not_found().await };
    let router = health.admin_api.get_or_init(|| admin_router(gateway));
    router.clone().oneshot(request).await.unwrap_or_else(|never| match never {})
}

async fn log_level() -> Response {
    match logs::log() {
        Some(log) => log.filter().into_response(),
        None => not_found().await, // the log belongs to the program that embeds the service
    }
}

/// Changes the filter of the log to the one in the body, for an admin.
async fn set_log_level(
    State(health): State<Health>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let filter = String::from_utf8_lossy(&body); // no level has the character that replaces invalid bytes
    let core = health.sources.get().and_then(|sources| sources.core.clone());
    let (Some(log), Some(core)) = (logs::log(), core) else { return not_found().await };
    let operator = match admin_of(core, &headers, peer.ip()).await {
        Ok(operator) => operator,
        Err(refusal) => return refusal,
    };
    match log.set_filter(filter.trim()) {
        Ok(()) => {
            let (client, filter) = (peer.ip(), filter.trim());
            tracing::warn!(operator, %client, filter, "changed the filter of the log");
            StatusCode::NO_CONTENT.into_response()
        }
        Err(reason) => error_response(StatusCode::BAD_REQUEST, "INVALID_REQUEST", reason),
    }
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

    use super::*;

    async fn answer_to(phase: &watch::Sender<Phase>, method: &str, path: &str) -> (u16, String) {
        let request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
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
    async fn only_a_serving_process_is_ready() {
        let phase = watch::Sender::new(Phase::Starting);
        let down = (503, r#"{"status":"down","parts":{}}"#.to_owned());
        assert_eq!(answer_to(&phase, "GET", "/readyz").await, down);
        phase.send_replace(Phase::Serving);
        assert_eq!(answer_to(&phase, "GET", "/readyz").await.0, 200);
        phase.send_replace(Phase::Draining);
        assert_eq!(answer_to(&phase, "GET", "/readyz").await, down);
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

    fn readiness(phase: Phase, [core, database, limiter]: [PartState; 3]) -> Readiness {
        Readiness::new(phase, vec![("core", core), ("database", database), ("limiter", limiter)])
    }

    #[test]
    fn a_process_is_as_ready_as_its_worst_part() {
        use PartState::{Degraded, Down, Ok};
        for (parts, status) in
            [([Ok, Ok, Ok], "ok"), ([Ok, Ok, Degraded], "degraded"), ([Down, Ok, Degraded], "down")]
        {
            let readiness = readiness(Phase::Serving, parts);
            let [core, database, limiter] = parts.map(|state| state.to_string());
            let named = json!({ "core": core, "database": database, "limiter": limiter });
            assert_eq!(readiness.body(), json!({ "status": status, "parts": named }));
            assert_eq!(readiness.takes_requests(), status != "down");
        }
    }

    #[test]
    fn only_a_serving_process_takes_requests() {
        for phase in [
            Phase::Starting,
            Phase::Draining,
            Phase::ClosingHttp,
            Phase::ClosingGrpc,
            Phase::ClosingBackground,
            Phase::ClosingAdmin,
        ] {
            let readiness = readiness(phase, [PartState::Ok; 3]);
            assert!(!readiness.takes_requests(), "{phase:?}");
            assert_eq!(readiness.body()["status"], "down", "{phase:?}");
        }
    }
}
