use std::{future, io, sync::atomic::AtomicUsize};

use futures_util::FutureExt;
use http::{Request, Response};
use tonic::body::Body;
use tower::{BoxError, service_fn};

use super::*;
use crate::{CoreTransport, transport::named};

/// The core's reaction to probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mood {
    Answers,
    Hangs,
    Refuses,
}

struct BreakerUnderTest {
    breaker: Arc<CoreBreaker>,
    mood: watch::Sender<Mood>,
    probes: Arc<Probes>,
}

#[derive(Default)]
struct Probes {
    sent: AtomicUsize,
    in_flight: AtomicUsize,
    most_in_flight: AtomicUsize,
}

impl BreakerUnderTest {
    fn new(mood: Mood) -> Self {
        let (mood, probes) = (watch::Sender::new(mood), Arc::<Probes>::default());
        let (moods, counts) = (mood.clone(), Arc::clone(&probes));
        let core = service_fn(move |request: Request<Body>| {
            assert_eq!(request.uri().path(), PROBE);
            let (mut mood, counts) = (moods.subscribe(), Arc::clone(&counts));
            async move {
                counts.sent.fetch_add(1, Ordering::Relaxed);
                let in_flight = InFlight::enter(counts);
                let mood = *mood.wait_for(|mood| *mood != Mood::Hangs).await.unwrap();
                drop(in_flight);
                match mood {
                    Mood::Refuses => Err(BoxError::from(io::Error::from(io::ErrorKind::ConnectionRefused))),
                    Mood::Answers | Mood::Hangs => Ok(Response::new(Body::empty())),
                }
            }
        });
        Self { breaker: CoreBreaker::new(named(CoreTransport::new(core), Arc::default())), mood, probes }
    }

    fn probes(&self) -> usize {
        self.probes.sent.load(Ordering::Relaxed)
    }

    async fn call_that_hangs(&self) -> Result<(), TransportError> {
        self.breaker.guard(future::pending()).await
    }

    async fn is_closed_again(&self) {
        self.breaker.is_open.subscribe().wait_for(|is_open| !is_open).await.unwrap();
    }
}

/// Counts a probe while it is in flight, also when it is given up.
struct InFlight(Arc<Probes>);

impl InFlight {
    fn enter(probes: Arc<Probes>) -> Self {
        let now = probes.in_flight.fetch_add(1, Ordering::Relaxed) + 1;
        probes.most_in_flight.fetch_max(now, Ordering::Relaxed);
        Self(probes)
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

fn cut() -> TransportError {
    TransportError::new(io::Error::from(io::ErrorKind::ConnectionReset))
}

#[tokio::test]
async fn an_answered_call_sends_no_probe() {
    let tested = BreakerUnderTest::new(Mood::Answers);
    assert_eq!(tested.breaker.guard(async { Ok(7) }).await.unwrap(), 7);
    assert_eq!(tested.probes(), 0);
}

#[tokio::test]
async fn a_long_call_continues_while_the_core_answers_probes() {
    let tested = BreakerUnderTest::new(Mood::Answers);
    let long = async {
        sleep(SUSPICION_TIMEOUT + 2 * PROBE_TIMEOUT).await;
        Ok(7)
    };
    assert_eq!(tested.breaker.guard(long).await.unwrap(), 7);
    assert!((1..=7).contains(&tested.probes()), "{} probes", tested.probes());
    assert!(!tested.breaker.is_open());
}

#[tokio::test]
async fn many_long_calls_share_the_probes() {
    let tested = BreakerUnderTest::new(Mood::Answers);
    let calls = (0..500).map(|_| {
        tested.breaker.guard(async {
            sleep(3 * SUSPICION_TIMEOUT).await;
            Ok(())
        })
    });
    assert!(futures_util::future::join_all(calls).await.iter().all(Result::is_ok));
    assert!((1..=6).contains(&tested.probes()), "{} probes", tested.probes());
}

#[tokio::test]
async fn calls_to_a_hung_core_fail_and_later_ones_fail_at_once_until_it_answers() {
    let tested = BreakerUnderTest::new(Mood::Hangs);
    let start = Instant::now();
    let (first, second) = tokio::join!(tested.call_that_hangs(), async {
        sleep(SUSPICION_TIMEOUT).await;
        tested.call_that_hangs().await
    });
    assert!(first.is_err() && second.is_err());
    assert!(start.elapsed() >= SUSPICION_TIMEOUT + PROBE_TIMEOUT, "{:?}", start.elapsed());
    assert!(tested.breaker.is_open());
    assert!(tested.call_that_hangs().now_or_never().expect("at once").is_err());

    sleep(2 * PROBE_TIMEOUT).await;
    assert!(tested.breaker.is_open());
    assert_eq!(tested.probes.most_in_flight.load(Ordering::Relaxed), 1);
    tested.mood.send_replace(Mood::Answers);
    tested.is_closed_again().await;
    assert_eq!(tested.breaker.guard(async { Ok(7) }).await.unwrap(), 7);
    assert_eq!(tested.breaker.outages.get(), 1);
}

#[tokio::test]
async fn a_busy_gateway_has_time_to_read_the_answer() {
    let tested = BreakerUnderTest::new(Mood::Hangs);
    let mut call = Box::pin(tested.call_that_hangs());
    assert!(timeout(SUSPICION_TIMEOUT + PROBE_TIMEOUT / 4, &mut call).await.is_err());
    assert_eq!(tested.probes(), 1);
    std::thread::sleep(PROBE_TIMEOUT); // nothing in this process runs
    for _ in 0..4 {
        tokio::task::yield_now().await;
    }
    assert!(!tested.breaker.is_open());
    tested.mood.send_replace(Mood::Answers);
    assert!(timeout(PROBE_TIMEOUT, call).await.is_err());
    assert!(!tested.breaker.is_open());
}

#[tokio::test]
async fn an_unreachable_core_opens_the_breaker() {
    let tested = BreakerUnderTest::new(Mood::Refuses);
    let start = Instant::now();
    while !tested.breaker.is_open() {
        let failed = tested.breaker.guard(async { Err::<(), _>(cut()) }).now_or_never();
        assert!(failed.expect("at once").is_err());
        sleep(Duration::from_millis(10)).await;
    }
    assert!(start.elapsed() >= PROBE_TIMEOUT, "{:?}", start.elapsed());
    tested.mood.send_replace(Mood::Answers);
    tested.is_closed_again().await;
}

#[tokio::test]
async fn one_lost_answer_does_not_open_the_breaker() {
    let tested = BreakerUnderTest::new(Mood::Answers);
    assert!(tested.breaker.guard(async { Err::<(), _>(cut()) }).await.is_err());
    sleep(2 * RETRY_INTERVAL).await;
    assert_eq!(tested.probes(), 1);
    assert!(!tested.breaker.is_open());
}

#[tokio::test]
async fn a_core_that_hangs_again_is_detected_again() {
    let tested = BreakerUnderTest::new(Mood::Hangs);
    for outage in 1..=2 {
        assert!(tested.call_that_hangs().await.is_err());
        assert_eq!(tested.breaker.outages.get(), outage);
        tested.mood.send_replace(Mood::Answers);
        tested.is_closed_again().await;
        tested.mood.send_replace(Mood::Hangs);
    }
}
