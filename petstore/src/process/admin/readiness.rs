//! Readiness of the process, for `/readyz` and as metrics: that of its worst part.

use std::sync::Arc;

use petstore_core::{Core, store::Store};
use petstore_core_client::CoreTransport;
use petstore_gateway::Gateway;
use petstore_telemetry::{
    metrics,
    metrics::{IntGauge, IntGaugeVec, gauge, gauges},
    parts::{Fault, FaultCause, PartState},
};
use serde_json::{Map, Value, json};

use crate::process::Phase;

/// Parts that the admin port reports. A process has a gateway, a store, or both.
#[derive(Clone, Default)]
pub(in crate::process) struct Sources {
    /// Core that checks operators' tokens.
    pub(in crate::process) core: Option<CoreTransport>,
    pub(in crate::process) gateway: Option<Gateway>,
    pub(in crate::process) store: Option<Store>,
    /// Core with a gRPC port.
    pub(in crate::process) served: Option<Arc<Core>>,
}

/// Readiness that `/readyz` reports.
#[derive(Clone, Debug)]
pub(super) struct Readiness {
    phase: Phase,
    status: PartState,
    /// Parts that the process has, each with its fault.
    parts: Vec<(&'static str, Option<Fault>)>,
}

impl Sources {
    /// Returns the parts that the process has, each with its fault.
    pub(super) async fn parts(&self) -> Vec<(&'static str, Option<Fault>)> {
        let database = match &self.store {
            None => None,
            Some(store) => Some(store.database().fault().await),
        };
        let (core, limiter) = self.gateway.as_ref().map(Gateway::faults).unzip();
        let grpc = self.served.as_ref().map(|core| core.calls.port_fault());
        let parts = [("core", core), ("database", database), ("limiter", limiter), ("grpc", grpc)];
        parts.into_iter().filter_map(|(part, fault)| Some((part, fault?))).collect()
    }
}

impl Readiness {
    /// Creates the readiness. A process is as ready as its worst part, and down while it starts and while it
    /// stops.
    pub(super) fn new(phase: Phase, parts: Vec<(&'static str, Option<Fault>)>) -> Self {
        let worst = parts.iter().map(|(_, fault)| state_of(*fault)).max().unwrap_or(PartState::Ok);
        Self { phase, status: if phase == Phase::Serving { worst } else { PartState::Down }, parts }
    }

    pub(super) fn takes_requests(&self) -> bool {
        self.status != PartState::Down
    }

    /// Returns a body such as `{"status":"ok","parts":{"core":"ok","database":"ok","limiter":"ok"}}`, with
    /// `causes` by part if a part is not ok, and that of the process if it starts or stops.
    pub(super) fn body(&self) -> Value {
        let named = |(part, fault): &(&'static str, Option<Fault>)| {
            ((*part).to_owned(), state_of(*fault).name().into())
        };
        let parts: Map<_, _> = self.parts.iter().map(named).collect();
        let explained = |(part, fault): &(&'static str, Option<Fault>)| {
            let cause = (*fault)?.cause;
            Some((*part, cause.name(), cause.message()))
        };
        let process = match self.phase {
            Phase::Serving => None,
            Phase::Starting => Some(("process", "starting", "The process is starting.")),
            _ => Some(("process", "draining", "The process is stopping. It finishes its requests.")),
        };
        let causes = process.into_iter().chain(self.parts.iter().filter_map(explained));
        let causes: Map<_, _> = causes
            .map(|(of, cause, message)| (of.to_owned(), json!({ "cause": cause, "message": message })))
            .collect();
        let mut body = json!({ "status": self.status.name(), "parts": parts });
        if !causes.is_empty() {
            body["causes"] = causes.into();
        }
        body
    }
}

/// Returns the state of a part with this fault.
fn state_of(fault: Option<Fault>) -> PartState {
    fault.map_or(PartState::Ok, |fault| fault.state)
}

metrics! {
    /// Metrics of readiness, with the same parts as `/readyz`.
    #[derive(Clone, Debug)]
    pub(super) struct ReadinessMetrics {
        ready: IntGauge = gauge("petstore_ready", "1 while /readyz answers 200."),
        up: IntGaugeVec = gauges(
            "petstore_part_up",
            "0 while the part is down, 1 while it is ok or degraded.",
            &["part"],
        ),
        states: IntGaugeVec = gauges(
            "petstore_part_state",
            "1 for the current state of the part (ok, degraded or down), otherwise 0.",
            &["part", "state"],
        ),
        causes: IntGaugeVec = gauges(
            "petstore_part_cause",
            "1 for the reason why the part is not ok, otherwise 0.",
            &["part", "cause"],
        ),
    }
}

impl ReadinessMetrics {
    pub(super) fn update(&self, readiness: &Readiness) {
        self.ready.set(readiness.takes_requests().into());
        for (part, fault) in &readiness.parts {
            let (name, state) = (*part, state_of(*fault));
            self.up.with_label_values(&[name]).set((state != PartState::Down).into());
            for other in PartState::ALL {
                self.states.with_label_values(&[name, other.name()]).set((other == state).into());
            }
            let current = fault.map(|fault| fault.cause.name());
            for cause in FaultCause::ALL.iter().filter(|cause| cause.part() == name) {
                let is_current = current == Some(cause.name());
                self.causes.with_label_values(&[name, cause.name()]).set(is_current.into());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readiness(phase: Phase, states: [PartState; 3]) -> Readiness {
        let causes = [FaultCause::CoreTokenRefused, FaultCause::DatabaseDamaged, FaultCause::LimiterOpen];
        let faults =
            states.into_iter().zip(causes).map(|(state, cause)| (cause.part(), Fault { state, cause }));
        let parts = faults.map(|(part, fault)| (part, Some(fault).filter(|it| it.state != PartState::Ok)));
        Readiness::new(phase, parts.collect())
    }

    #[test]
    fn a_process_is_as_ready_as_its_worst_part_and_says_why() {
        use PartState::{Degraded, Down, Ok};
        for (parts, status, causes) in [
            ([Ok, Ok, Ok], "ok", json!(null)),
            ([Ok, Ok, Degraded], "degraded", json!({ "limiter": "redis_unreachable" })),
            (
                [Down, Ok, Degraded],
                "down",
                json!({ "core": "token_refused", "limiter": "redis_unreachable" }),
            ),
        ] {
            let readiness = readiness(Phase::Serving, parts);
            let [core, database, limiter] = parts.map(PartState::name);
            let mut body = readiness.body();
            for cause in body.get_mut("causes").and_then(Value::as_object_mut).into_iter().flatten() {
                assert!(cause.1["message"].as_str().unwrap().ends_with('.'), "{cause:?}");
                *cause.1 = cause.1["cause"].take();
            }
            let mut expected = json!({ "core": core, "database": database, "limiter": limiter });
            expected = json!({ "status": status, "parts": expected });
            if !causes.is_null() {
                expected["causes"] = causes;
            }
            assert_eq!(body, expected);
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
            let body = readiness.body();
            assert_eq!(body["status"], "down", "{phase:?}");
            let cause = if phase == Phase::Starting { "starting" } else { "draining" };
            assert_eq!(body["causes"]["process"]["cause"], cause, "{phase:?}");
        }
    }
}
