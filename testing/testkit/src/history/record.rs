//! Record of one request, and of one call.

use std::{sync::LazyLock, time::Duration};

use http::header::HeaderName;
use tokio::time::Instant;

use super::StoredPet;
use crate::{
    Answer,
    grpc::{self, Status},
};

/// Zero of the records' times: they can be compared across the loads of a process.
static ZERO: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Record of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Time at which it was sent, or due in an open loop, in nanoseconds since a time common to the process.
    pub inv_ns: u64,
    /// Time at which its answer arrived, or was given up, in nanoseconds since that time.
    pub ret_ns: u64,
    /// Process of the gateway that it was sent to; `None` for a gRPC call, which has no limits.
    pub gateway: Option<usize>,
    /// Key, by its place in the list: records hold no secrets.
    pub key: usize,
    /// Account of the key.
    pub account: usize,
    /// Pets that it adds, with the identifiers that the answer gave them.
    pub adds: Vec<StoredPet>,
    /// Status, or the reason why no answer arrived. A gRPC call has that of its reason in HTTP.
    pub status: Result<u16, NoAnswer>,
    /// `X-RateLimit-Limit`.
    pub rl_limit: Option<u64>,
    /// `X-RateLimit-Remaining`.
    pub rl_remaining: Option<u64>,
    /// `X-RateLimit-Reset`, in Unix seconds.
    pub rl_reset: Option<u64>,
    /// `Retry-After`, in seconds.
    pub retry_after: Option<u64>,
    /// `X-RateLimit-Scope`: `node` while the gateway counts locally.
    pub scope: Option<String>,
    /// Member `code` of an Error body, or the reason of a refused call.
    pub code: Option<String>,
}

/// Reason why a request has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoAnswer {
    /// The request was never sent: the gateway accepted no connection.
    NotSent,
    /// The connection broke. The request may have counted.
    Broken,
    /// No answer arrived within the client's deadline. The request may have counted.
    TimedOut,
}

impl Record {
    /// Records a request whose answer has just arrived or been given up.
    pub fn of_request(
        sent: Instant,
        gateway: usize,
        (account, key): (usize, usize),
        adds: Vec<StoredPet>,
        answer: Result<&Answer, NoAnswer>,
    ) -> Self {
        let mut record = Self::new(sent, adds, answer.map(Answer::status));
        (record.gateway, record.account, record.key) = (Some(gateway), account, key);
        let Ok(answer) = answer else { return record };
        // A field that is there twice is as wrong as one that is missing.
        let text = |name: HeaderName| match &answer.values(name.as_str())[..] {
            [value] => Some((*value).to_owned()),
            _ => None,
        };
        let number = |name| text(HeaderName::from_static(name)).and_then(|value| value.parse().ok());
        record.rl_limit = number("x-ratelimit-limit");
        record.rl_remaining = number("x-ratelimit-remaining");
        record.rl_reset = number("x-ratelimit-reset");
        record.retry_after = number("retry-after");
        record.scope = text(HeaderName::from_static("x-ratelimit-scope"));
        let body = serde_json::from_slice::<serde_json::Value>(answer.body()).unwrap_or_default();
        record.code = body["code"].as_str().map(str::to_owned);
        if let (201, [pet]) = (answer.status(), &mut record.adds[..]) {
            pet.id = body["id"].as_i64().unwrap_or_default();
        }
        record
    }

    /// Records a gRPC call that adds pets and whose answer has just arrived: their identifiers, none if the
    /// answer gives none, or the refusal.
    pub fn of_call(sent: Instant, mut adds: Vec<StoredPet>, answer: Result<&[i64], &Status>) -> Self {
        let refusal = match answer {
            Ok(ids) => {
                adds.iter_mut().zip(ids).for_each(|(pet, id)| pet.id = *id);
                return Self::new(sent, adds, Ok(201));
            }
            Err(refusal) => refusal,
        };
        let code = Some(grpc::reason(refusal)).filter(|reason| !reason.is_empty());
        let status = match &code {
            Some(reason) => Ok(super::http_status(reason).unwrap_or(500)),
            None => Err(NoAnswer::Broken), // every refusal of the service has a reason
        };
        let retry_after = grpc::retry_after(refusal);
        Self { retry_after, code, ..Self::new(sent, adds, status) }
    }

    fn new(sent: Instant, adds: Vec<StoredPet>, status: Result<u16, NoAnswer>) -> Self {
        Self {
            inv_ns: nanos(sent),
            ret_ns: nanos(Instant::now()),
            gateway: None,
            key: 0,
            account: 0,
            adds,
            status,
            rl_limit: None,
            rl_remaining: None,
            rl_reset: None,
            retry_after: None,
            scope: None,
            code: None,
        }
    }

    /// Returns the time from sending, or being due, to the answer.
    pub fn latency(&self) -> Duration {
        Duration::from_nanos(self.ret_ns.saturating_sub(self.inv_ns))
    }
}

/// Returns a time as records have it. Times before the first record are 0.
pub(super) fn nanos(at: Instant) -> u64 {
    u64::try_from(at.saturating_duration_since(*ZERO).as_nanos()).expect("within 584 years")
}

/// Begins the time of the records, if no record has done so.
pub(crate) fn start_time() {
    LazyLock::force(&ZERO);
}

/// Returns the latency that this part of the records does not exceed: 0.99 for the 99th percentile. Zero for
/// no records.
pub fn latency_at(quantile: f64, records: &[Record]) -> Duration {
    let mut latencies: Vec<_> = records.iter().map(Record::latency).collect();
    latencies.sort_unstable();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a place in a list"
    )]
    let place = (quantile * latencies.len() as f64).ceil() as usize;
    latencies.get(place.clamp(1, latencies.len().max(1)) - 1).copied().unwrap_or_default()
}
