//! Readiness of a process for requests.

use std::time::Duration;

use petstore_core::store::Store;
use petstore_gateway::{Gateway, PartState, core_client::CoreTransport};
use serde_json::{Map, Value, json};
use tokio::time::timeout;

use super::Phase;

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
pub(crate) struct Readiness {
    status: PartState,
    /// Parts that the process has, by name.
    pub(crate) parts: Vec<(&'static str, PartState)>,
}

impl Sources {
    /// Returns the state of each part that the process has.
    pub(crate) async fn states(&self) -> Vec<(&'static str, PartState)> {
        let gateway = self.gateway.as_ref().map(Gateway::readiness);
        let database = match &self.store {
            None => None,
            Some(store) => match timeout(PING_TIMEOUT, store.ping()).await {
                Ok(Ok(())) if store.is_damaged() => Some(PartState::Degraded),
                Ok(Ok(())) => Some(PartState::Ok),
                Ok(Err(_)) | Err(_) => Some(PartState::Down),
            },
        };
        let (core, limiter) = (gateway.map(|parts| parts.core), gateway.map(|parts| parts.limiter));
        let parts = [("core", core), ("database", database), ("limiter", limiter)];
        parts.into_iter().filter_map(|(name, state)| Some((name, state?))).collect()
    }
}

impl Readiness {
    /// Creates the readiness. A process is as ready as its worst part, and down while it starts and while it
    /// stops.
    pub(crate) fn new(phase: Phase, parts: Vec<(&'static str, PartState)>) -> Self {
        let worst = parts.iter().map(|(_, state)| *state).max().unwrap_or(PartState::Ok);
        Self { status: if phase == Phase::Serving { worst } else { PartState::Down }, parts }
    }

    pub(crate) fn takes_requests(&self) -> bool {
        self.status != PartState::Down
    }

    /// Returns a body such as `{"status":"ok","parts":{"core":"ok","database":"ok","limiter":"ok"}}`.
    pub(crate) fn body(&self) -> Value {
        let parts: Map<_, _> =
            self.parts.iter().map(|(name, state)| ((*name).to_owned(), state.to_string().into())).collect();
        json!({ "status": self.status.to_string(), "parts": parts })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
