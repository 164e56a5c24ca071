//! Readiness of a process for requests.

use std::time::Duration;

use petstore_core::store::Store;
use petstore_gateway::{Gateway, PartState, core_client::CoreTransport};
use serde_json::{Map, Value, json};
use tokio::time::timeout;

use super::lifecycle::Phase;

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

/// State of each part; `None` if the process does not have it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PartStates {
    core: Option<PartState>,
    database: Option<PartState>,
    limiter: Option<PartState>,
}

/// Readiness that `/readyz` reports.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Readiness {
    status: PartState,
    parts: PartStates,
}

impl Sources {
    pub(crate) async fn states(&self) -> PartStates {
        let gateway = self.gateway.as_ref().map(Gateway::readiness);
        let database = match &self.store {
            None => None,
            Some(store) => match timeout(PING_TIMEOUT, store.ping()).await {
                Ok(Ok(())) if store.is_damaged() => Some(PartState::Degraded),
                Ok(Ok(())) => Some(PartState::Ok),
                Ok(Err(_)) | Err(_) => Some(PartState::Down),
            },
        };
        PartStates {
            core: gateway.map(|parts| parts.core),
            database,
            limiter: gateway.map(|parts| parts.limiter),
        }
    }
}

impl PartStates {
    fn named(self) -> impl Iterator<Item = (&'static str, PartState)> {
        [("core", self.core), ("database", self.database), ("limiter", self.limiter)]
            .into_iter()
            .filter_map(|(name, state)| Some((name, state?)))
    }
}

impl Readiness {
    /// Returns the readiness. A process is as ready as its worst part, and down while it starts and while it
    /// stops.
    pub(crate) fn judge(phase: Phase, parts: PartStates) -> Self {
        let worst = parts.named().map(|(_, state)| state).max();
        let status = if phase == Phase::Serving { worst.unwrap_or(PartState::Ok) } else { PartState::Down };
        Self { status, parts }
    }

    pub(crate) fn takes_requests(self) -> bool {
        self.status != PartState::Down
    }

    /// Returns each part that the process has, with `true` if it works.
    pub(crate) fn parts(self) -> impl Iterator<Item = (&'static str, bool)> {
        self.parts.named().map(|(name, state)| (name, state != PartState::Down))
    }

    /// Returns a body such as `{"status":"ok","parts":{"core":"ok","database":"ok","limiter":"ok"}}`.
    pub(crate) fn body(self) -> Value {
        let parts: Map<_, _> =
            self.parts.named().map(|(name, state)| (name.to_owned(), word(state).into())).collect();
        json!({ "status": word(self.status), "parts": parts })
    }
}

fn word(state: PartState) -> &'static str {
    match state {
        PartState::Ok => "ok",
        PartState::Degraded => "degraded",
        PartState::Down => "down",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READY: PartStates =
        PartStates { core: Some(PartState::Ok), database: Some(PartState::Ok), limiter: Some(PartState::Ok) };

    fn body(phase: Phase, parts: PartStates) -> Value {
        Readiness::judge(phase, parts).body()
    }

    #[test]
    fn the_body_names_the_status_and_every_part() {
        let parts = json!({ "core": "ok", "database": "ok", "limiter": "ok" });
        assert_eq!(body(Phase::Serving, READY), json!({ "status": "ok", "parts": parts }));
    }

    #[test]
    fn a_process_is_as_ready_as_its_worst_part() {
        let degraded = PartStates { limiter: Some(PartState::Degraded), ..READY };
        assert_eq!(body(Phase::Serving, degraded)["status"], "degraded");
        assert!(Readiness::judge(Phase::Serving, degraded).takes_requests());

        let down = PartStates { core: Some(PartState::Down), ..degraded };
        assert_eq!(body(Phase::Serving, down)["status"], "down");
        assert!(!Readiness::judge(Phase::Serving, down).takes_requests());
    }

    #[test]
    fn an_absent_component_is_left_out() {
        let core = PartStates { database: Some(PartState::Ok), ..PartStates::default() };
        assert_eq!(body(Phase::Serving, core), json!({ "status": "ok", "parts": { "database": "ok" } }));
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
            assert!(!Readiness::judge(phase, READY).takes_requests(), "{phase:?}");
            assert_eq!(body(phase, READY)["status"], "down", "{phase:?}");
        }
    }
}
