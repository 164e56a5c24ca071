//! Tests of the load clients and the checker over HTTP, against a stand-in for a gateway.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use petstore_testkit::{
    history::{NoAnswer, Record, Rule, check, latency_at},
    load::{Bounds, Load, Sender},
};
use tokio::net::TcpListener;

const LIMIT: u64 = 50;

/// Time that is far more than any of these loads needs.
const LOAD_TIMEOUT: Duration = Duration::from_secs(30);

#[tokio::test]
async fn an_exact_limiter_behind_two_gateways_is_clean_under_three_times_its_limit() {
    let (gateway, other) = gateways(Limiter::Atomic).await;
    let load = Load::new(&[gateway.address, other.address], &[sender(3)]).over(8);
    let records = load.closed_loop(Bounds { requests: 3 * 50, time: LOAD_TIMEOUT }).await;
    assert_eq!(records.len(), 150);
    let report = check(&records);
    report.assert_clean();
    assert_eq!(report.admitted(), LIMIT);

    for gateway in [0, 1] {
        assert!(
            records.iter().any(|record| record.gateway == Some(gateway)),
            "gateway {gateway} was left out"
        );
    }
    let refused = records.iter().find(|record| record.status == Ok(429)).unwrap();
    let fields =
        (refused.account, refused.rl_limit, refused.rl_remaining, refused.rl_reset, refused.retry_after);
    assert_eq!(fields, (3, Some(LIMIT), Some(0), Some(1_700_000_000), Some(9)));
    assert_eq!((refused.code.as_deref(), refused.scope.as_deref()), (Some("RATE_LIMITED"), Some("shared")));
    assert!(refused.ret_ns > refused.inv_ns);
    let connections = gateway.connections.load(Ordering::Relaxed) + other.connections.load(Ordering::Relaxed);
    assert_eq!(connections, 8, "connections are kept");
}

/// Tests a limiter that is wrong (negative control): if the checker accepted it, it would accept anything.
#[tokio::test]
async fn a_limiter_that_checks_and_then_increments_is_detected() {
    let (gateway, other) = gateways(Limiter::CheckThenIncrement).await;
    let load = Load::new(&[gateway.address, other.address], &[sender(0)]).over(8);
    let report = check(&load.closed_loop(Bounds { requests: 150, time: LOAD_TIMEOUT }).await);
    assert!(report.violates(Rule::LimitIsKept), "{report}");
}

#[tokio::test]
async fn an_open_loop_counts_the_wait_of_stalled_requests() {
    let gateway = Gateway::start(Limiter::Stalls, Arc::default()).await;
    let load = Load::new(&[gateway.address], &[sender(0)]).over(1);
    let open = load.open_loop(100, Bounds { requests: 20, time: LOAD_TIMEOUT }).await;
    assert_eq!(open.len(), 20);
    let first_due = open.first().unwrap().inv_ns;
    let last_due = open.last().unwrap().inv_ns;
    assert_eq!(last_due - first_due, 190_000_000, "evenly, whatever the service does");
    // The first answer takes 300 ms; the request that was due after 150 ms has waited for half of that.
    assert!(latency_at(1.0, &open) >= Duration::from_millis(300));
    assert!(latency_at(0.5, &open) >= Duration::from_millis(100), "{:?}", latency_at(0.5, &open));

    let gateway = Gateway::start(Limiter::Stalls, Arc::default()).await;
    let load = Load::new(&[gateway.address], &[sender(0)]).over(1);
    let closed = load.closed_loop(Bounds { requests: 20, time: LOAD_TIMEOUT }).await;
    assert!(latency_at(1.0, &closed) >= Duration::from_millis(300));
    assert!(
        latency_at(0.5, &closed) < Duration::from_millis(100),
        "only one request was sent into the stall"
    );
}

#[tokio::test]
async fn a_load_ends_after_its_duration() {
    let gateway = Gateway::start(Limiter::Atomic, Arc::default()).await;
    let load = Load::new(&[gateway.address], &[sender(0), sender(1)]);
    let records = load.open_loop(200, Bounds { requests: 1_000_000, time: Duration::from_millis(100) }).await;
    assert!((15..=21).contains(&records.len()), "{} requests", records.len());
    let of = |key| records.iter().filter(|record| record.key == key && record.account == key).count();
    assert!(of(0).abs_diff(of(1)) <= 1, "the keys take turns");
}

#[tokio::test]
async fn a_request_without_an_answer_has_its_cause() {
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let bounds = Bounds { requests: 3, time: LOAD_TIMEOUT };
    let records = Load::new(&[nobody], &[sender(0)]).closed_loop(bounds).await;
    assert_eq!(statuses(&records), [Err(NoAnswer::NotSent); 3]);

    let gateway = Gateway::start(Limiter::HangsUp, Arc::default()).await;
    let records = Load::new(&[gateway.address], &[sender(0)]).closed_loop(bounds).await;
    assert_eq!(statuses(&records), [Err(NoAnswer::Broken); 3]);
}

fn statuses(records: &[Record]) -> Vec<Result<u16, NoAnswer>> {
    records.iter().map(|record| record.status).collect()
}

fn sender(account: usize) -> Sender {
    Sender { account, key: format!("key-{account}") }
}

#[derive(Clone, Copy)]
enum Limiter {
    Atomic,
    CheckThenIncrement,
    /// Takes 300 ms for its first request, and has no limit.
    Stalls,
    /// Closes the connection instead of answering.
    HangsUp,
}

/// Stand-in for a gateway, as far as a load client needs it.
struct Gateway {
    address: SocketAddr,
    connections: Arc<AtomicU64>,
}

async fn gateways(limiter: Limiter) -> (Gateway, Gateway) {
    let used = Arc::default();
    tokio::join!(Gateway::start(limiter, Arc::clone(&used)), Gateway::start(limiter, used))
}

impl Gateway {
    async fn start(limiter: Limiter, used: Arc<Mutex<u64>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicU64::new(0));
        let accepted = Arc::clone(&connections);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                accepted.fetch_add(1, Ordering::Relaxed);
                let used = Arc::clone(&used);
                let service = service_fn(move |request| answer(limiter, Arc::clone(&used), request));
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        Self { address, connections }
    }
}

async fn answer(
    limiter: Limiter,
    used: Arc<Mutex<u64>>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, &'static str> {
    assert!(request.headers().get("authorization").unwrap().to_str().unwrap().starts_with("Bearer key-"));
    let before = *used.lock().unwrap();
    match limiter {
        Limiter::HangsUp => return Err("no answer"),
        Limiter::Stalls if before == 0 => tokio::time::sleep(Duration::from_millis(300)).await,
        Limiter::CheckThenIncrement => tokio::task::yield_now().await, // in place of a round trip
        Limiter::Stalls | Limiter::Atomic => {}
    }
    let mut used = used.lock().unwrap();
    let seen = if matches!(limiter, Limiter::CheckThenIncrement) { before } else { *used };
    let is_admitted = seen < LIMIT || matches!(limiter, Limiter::Stalls);
    *used += u64::from(is_admitted);
    let response = Response::builder()
        .header("x-ratelimit-limit", LIMIT)
        .header("x-ratelimit-remaining", LIMIT.saturating_sub(seen + 1))
        .header("x-ratelimit-reset", "1700000000")
        .header("x-ratelimit-scope", "shared");
    let response = if is_admitted {
        response.body(Full::from("[]"))
    } else {
        let error = r#"{"code":"RATE_LIMITED","message":"wait","status":429}"#;
        response.status(429).header("retry-after", "9").body(Full::from(error))
    };
    Ok(response.unwrap())
}
