//! Records of a load.

use std::{sync::LazyLock, time::Duration};

use bytes::Bytes;
use http::HeaderMap;
use tokio::time::Instant;

/// Zero of the records' times: they can be compared across the loads of a process.
pub(super) static ZERO: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Status, headers and body, or the reason why no answer arrived.
pub(super) type Answer = Result<(u16, HeaderMap, Bytes), NoAnswer>;

/// Record of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Time at which it was sent, or due in an open loop, in nanoseconds since a time common to the process.
    pub inv_ns: u64,
    /// Time at which its answer arrived, or was given up, in nanoseconds since that time.
    pub ret_ns: u64,
    /// Gateway it was sent to, by its place in the list.
    pub gateway: usize,
    /// Key, by its place in the list: records hold no secrets.
    pub key: usize,
    /// Account of the key.
    pub account: usize,
    /// Status, or the reason why no answer arrived.
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
    /// Member `code` of an Error body.
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
    pub(super) fn new(sent: Instant, gateway: usize, key: usize, account: usize, answer: Answer) -> Self {
        let nanos =
            |at: Instant| u64::try_from(at.duration_since(*ZERO).as_nanos()).expect("within 584 years");
        let ret_ns = nanos(Instant::now());
        let (status, headers, body) = match answer {
            Ok((status, headers, body)) => (Ok(status), headers, body),
            Err(reason) => (Err(reason), HeaderMap::new(), Bytes::new()),
        };
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let number = |name: &str| text(name).and_then(|value| value.parse().ok());
        let code = serde_json::from_slice::<serde_json::Value>(&body).ok();
        let code = code.and_then(|error| error.get("code")?.as_str().map(str::to_owned));
        Self {
            inv_ns: nanos(sent),
            ret_ns,
            gateway,
            key,
            account,
            status,
            rl_limit: number("x-ratelimit-limit"),
            rl_remaining: number("x-ratelimit-remaining"),
            rl_reset: number("x-ratelimit-reset"),
            retry_after: number("retry-after"),
            scope: text("x-ratelimit-scope").map(str::to_owned),
            code,
        }
    }

    /// Returns the time from sending, or being due, to the answer.
    #[must_use]
    pub fn latency(&self) -> Duration {
        Duration::from_nanos(self.ret_ns.saturating_sub(self.inv_ns))
    }
}

/// Returns the latency that this part of the records does not exceed: 0.99 for the 99th percentile. Zero for
/// no records.
#[must_use]
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
