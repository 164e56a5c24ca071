//! The admin port: is the process alive, and should it be sent requests.

use std::sync::{Arc, OnceLock};

use axum::{
    Router,
    extract::State,
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
    routing::get,
};
use serde_json::{Value, json};

use crate::{
    process::PhaseWatch,
    readiness::{PartStates, Readiness, Sources},
};

/// What the admin port tells from. It is served before the parts exist.
#[derive(Clone, Debug)]
pub(crate) struct Health {
    phase: PhaseWatch,
    sources: Arc<OnceLock<Sources>>,
}

impl Health {
    pub(crate) fn new(phase: PhaseWatch) -> Self {
        Self { phase, sources: Arc::default() }
    }

    /// Names the parts, once they exist.
    pub(crate) fn tell_of(&self, sources: Sources) {
        // An error means that they were named before, and they do not change.
        let _ = self.sources.set(sources);
    }

    async fn readiness(&self) -> Readiness {
        let parts = match self.sources.get() {
            Some(sources) => sources.ask().await,
            None => PartStates::default(),
        };
        Readiness::judge(self.phase.now(), parts)
    }
}

pub(crate) fn router(health: Health) -> Router {
    Router::new()
        .route("/livez", get(async || "ok"))
        .route("/readyz", get(readyz))
        .fallback(not_found)
        .method_not_allowed_fallback(not_found)
        .with_state(health)
}

async fn readyz(State(health): State<Health>) -> Response {
    let readiness = health.readiness().await;
    let status = if readiness.takes_requests() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    answer(status, &readiness.body())
}

async fn not_found() -> Response {
    let error = json!({ "code": "ROUTE_NOT_FOUND", "message": "the admin port has /livez and /readyz", "status": 404 });
    answer(StatusCode::NOT_FOUND, &error)
}

fn answer(status: StatusCode, body: &Value) -> Response {
    (status, [(CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

#[cfg(test)]
mod tests {
    use axum::{
        body::{Body, to_bytes},
        http::Request,
    };
    use tower::ServiceExt;

    use super::*;
    use crate::process::{Lifecycle, Phase};

    async fn answer_to(lifecycle: &Lifecycle, method: &str, path: &str) -> (u16, String) {
        let request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
        let response = router(Health::new(lifecycle.watch())).oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn a_process_lives_from_its_start_to_its_end() {
        let lifecycle = Lifecycle::new();
        for phase in [Phase::Starting, Phase::Serving, Phase::Draining, Phase::ClosingAdmin] {
            lifecycle.enter(phase);
            assert_eq!(answer_to(&lifecycle, "GET", "/livez").await, (200, "ok".to_owned()));
        }
    }

    #[tokio::test]
    async fn only_a_serving_process_is_ready() {
        let lifecycle = Lifecycle::new();
        let down = (503, r#"{"status":"down","parts":{}}"#.to_owned());
        assert_eq!(answer_to(&lifecycle, "GET", "/readyz").await, down);
        lifecycle.enter(Phase::Serving);
        assert_eq!(answer_to(&lifecycle, "GET", "/readyz").await.0, 200);
        lifecycle.enter(Phase::Draining);
        assert_eq!(answer_to(&lifecycle, "GET", "/readyz").await, down);
    }

    #[tokio::test]
    async fn everything_else_is_a_404_in_json() {
        let lifecycle = Lifecycle::new();
        for (method, path) in [("GET", "/"), ("GET", "/readyz/"), ("GET", "/v1/pets"), ("POST", "/livez")] {
            let (status, body) = answer_to(&lifecycle, method, path).await;
            let body: Value = serde_json::from_str(&body).unwrap();
            assert_eq!((status, &body["code"]), (404, &json!("ROUTE_NOT_FOUND")), "{method} {path}");
        }
    }
}
