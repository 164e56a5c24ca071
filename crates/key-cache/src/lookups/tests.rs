use std::{
    net::{IpAddr, Ipv4Addr},
    sync::Mutex,
};

use futures_util::{
    future::{join_all, select_all},
    poll,
};
use tokio::{
    sync::watch,
    time::{Instant, timeout_at},
};

use super::*;

/// Time at which a call began, and its digests.
type NotedCall = (Instant, Vec<KeyDigest>);

/// Core that records its calls, and answers with the number of the call.
struct LookupsUnderTest {
    lookups: Arc<Lookups<usize>>,
    calls: Arc<Mutex<Vec<NotedCall>>>,
    /// While `true`, answers do not arrive.
    held: watch::Sender<bool>,
}

impl LookupsUnderTest {
    fn new() -> Self {
        let (calls, held) = (Arc::<Mutex<Vec<_>>>::default(), watch::Sender::new(false));
        let (noted, release) = (Arc::clone(&calls), held.clone());
        let lookups = Lookups::new(move |digests| {
            let number = {
                let mut calls = noted.lock().unwrap();
                calls.push((Instant::now(), digests));
                calls.len()
            };
            let mut held = release.subscribe();
            async move {
                held.wait_for(|held| !held).await.unwrap();
                number
            }
            .boxed()
        });
        Self { lookups, calls, held }
    }

    fn sizes(&self) -> Vec<usize> {
        self.calls.lock().unwrap().iter().map(|(_, digests)| digests.len()).collect()
    }

    /// Starts `calls` calls, each about one digest, none of which is answered.
    async fn occupied(&self, calls: u32) -> Vec<BoxFuture<'_, Result<usize, KeyError>>> {
        self.held.send_replace(true);
        let mut waiting = Vec::new();
        for number in 0..calls {
            waiting.push(self.lookups.find(digest(1_000_000 + number), Some(address(1))).boxed());
            while self.sizes().len() <= number as usize {
                assert!(poll!(select_all(&mut waiting)).is_pending());
                tokio::task::yield_now().await;
            }
        }
        waiting
    }
}

fn digest(number: u32) -> KeyDigest {
    let mut digest = [0; 32];
    digest[..4].copy_from_slice(&number.to_be_bytes());
    KeyDigest(digest)
}

fn address(number: u32) -> ClientAddress {
    IpAddr::V4(Ipv4Addr::from_bits(number)).into()
}

#[tokio::test]
async fn a_single_key_is_looked_up_at_once() {
    let tested = LookupsUnderTest::new();
    let start = Instant::now();
    assert_eq!(tested.lookups.find(digest(1), Some(address(1))).await, Ok(1));
    assert!(start.elapsed() < QUEUE_TIMEOUT);
    assert_eq!(tested.sizes(), [1]);
}

#[tokio::test]
async fn waiting_lookups_share_calls_of_a_thousand() {
    let tested = LookupsUnderTest::new();
    let answers =
        join_all((0..2_500).map(|number| tested.lookups.find(digest(number), Some(address(number))))).await;
    assert_eq!(tested.sizes(), [1_000, 1_000, 500]);
    assert_eq!(answers.iter().filter(|answer| **answer == Ok(3)).count(), 500);
}

#[tokio::test]
async fn at_most_two_hundred_calls_begin_in_a_second() {
    let tested = LookupsUnderTest::new();
    for number in 0..40 {
        tested.lookups.find(digest(number), Some(address(1))).await.unwrap();
    }
    let begun: Vec<_> = tested.calls.lock().unwrap().iter().map(|(begun, _)| *begun).collect();
    assert_eq!(begun.len(), 40);
    assert!(begun.windows(2).all(|pair| pair[0] + BATCH_INTERVAL <= pair[1]), "{begun:?}");
}

#[tokio::test]
async fn at_most_sixteen_calls_are_in_flight() {
    let tested = LookupsUnderTest::new();
    let mut waiting = tested.occupied(16).await;
    waiting.push(tested.lookups.find(digest(17), None).boxed());
    let soon = Instant::now() + 10 * BATCH_INTERVAL;
    assert!(timeout_at(soon, select_all(&mut waiting)).await.is_err(), "none is answered");
    assert_eq!(tested.sizes().len(), 16);
    tested.held.send_replace(false);
    assert!(join_all(waiting).await.iter().all(Result::is_ok));
    assert_eq!(tested.sizes().len(), 17);
}

/// Tests that 150 unknown keys a second at one address fill several calls, while a neighbour's key is in the
/// very next one.
#[tokio::test]
async fn addresses_take_turns_if_more_lookups_wait_than_fit() {
    let tested = LookupsUnderTest::new();
    let mut waiting = tested.occupied(16).await;
    let flood = (0..3_000).map(|number| tested.lookups.find(digest(number), Some(address(7))).boxed());
    let many = (0..500)
        .map(|number| tested.lookups.find(digest(10_000 + number), Some(address(100 + number))).boxed());
    waiting.extend(flood.chain(many));
    waiting.push(tested.lookups.find(digest(99_999), Some(address(8))).boxed());
    assert!(poll!(select_all(&mut waiting)).is_pending());
    tested.held.send_replace(false);
    join_all(waiting).await;
    let calls = tested.calls.lock().unwrap();
    let (_, next) = &calls[16];
    assert!(next.contains(&digest(99_999)));
    assert_eq!(next.iter().filter(|asked| asked.0[..4] < 10_000_u32.to_be_bytes()[..]).count(), 499);
}

#[tokio::test]
async fn keys_that_were_known_are_looked_up_first() {
    let tested = LookupsUnderTest::new();
    let mut waiting = tested.occupied(16).await;
    waiting
        .extend((0..5_000).map(|number| tested.lookups.find(digest(number), Some(address(number))).boxed()));
    waiting.push(tested.lookups.find(digest(99_999), None).boxed());
    assert!(poll!(select_all(&mut waiting)).is_pending());
    tested.held.send_replace(false);
    join_all(waiting).await;
    assert_eq!(tested.calls.lock().unwrap()[16].1[0], digest(99_999));
}

#[tokio::test]
async fn cancelled_lookups_are_not_sent_and_delay_no_other() {
    let tested = LookupsUnderTest::new();
    let occupied = tested.occupied(16).await;
    let mut waiting = tested.lookups.find(digest(1), Some(address(1))).boxed();
    assert!(poll!(&mut waiting).is_pending());
    drop(waiting);
    drop(occupied); // the calls end with them
    tested.held.send_replace(false);
    assert_eq!(tested.lookups.find(digest(2), Some(address(2))).await, Ok(17));
    assert_eq!(tested.calls.lock().unwrap()[16].1, [digest(2)]);
}

#[tokio::test]
async fn a_lookup_that_waits_too_long_is_refused() {
    let tested = LookupsUnderTest::new();
    let mut waiting = tested.occupied(16).await;
    let start = Instant::now();
    waiting.push(tested.lookups.find(digest(1), Some(address(1))).boxed());
    let (refused, at, _) = select_all(waiting).await;
    assert_eq!((refused, at), (Err(KeyError::Overloaded), 16));
    assert!(start.elapsed() >= QUEUE_TIMEOUT);
}

#[tokio::test]
async fn the_number_of_waiting_lookups_is_bounded() {
    let mut queue =
        Queue::<()> { refreshes: VecDeque::new(), unknown: FairQueue::default(), is_gathering: true };
    let queued = || (digest(1), oneshot::channel().0);
    for number in 0..100_000 {
        assert_eq!(queue.push(Some(address(number)), queued()), Ok(false));
    }
    assert_eq!(queue.push(Some(address(1)), queued()), Err(KeyError::Overloaded));
    assert_eq!(queue.push(None, queued()), Err(KeyError::Overloaded));
    assert!(queue.gather().is_empty(), "nobody waits for these any more");
    assert_eq!(queue.push(Some(address(1)), queued()), Ok(false));
}

const DIGEST: KeyDigest = KeyDigest([7; 32]);

fn in_flight<T>(flights: &SingleFlight<T>) -> usize {
    flights.lock().values().filter(|flight| flight.upgrade().is_some()).count()
}

#[tokio::test]
async fn callers_share_a_flight_until_it_lands() {
    let flights = SingleFlight::default();
    let first = join(&flights, DIGEST, || async {
        tokio::task::yield_now().await;
        1
    });
    let second = join(&flights, DIGEST, || async { 2 });
    assert_eq!(tokio::join!(first.clone(), second), (1, 1));
    assert_eq!(join(&flights, DIGEST, || async { 3 }).await, 3);
    assert_eq!(in_flight(&flights), 0);
}

#[tokio::test]
async fn a_flight_continues_when_its_first_caller_is_cancelled() {
    let flights = SingleFlight::default();
    let mut first = join(&flights, DIGEST, || async {
        tokio::task::yield_now().await;
        1
    });
    let second = join(&flights, DIGEST, || async { 2 });
    assert!(poll!(&mut first).is_pending());
    drop(first);
    assert_eq!(second.await, 1);
}

#[tokio::test]
async fn a_flight_without_callers_is_cancelled_and_removed() {
    let flights = SingleFlight::default();
    let mut flight = join(&flights, DIGEST, std::future::pending::<u8>);
    assert!(poll!(&mut flight).is_pending());
    drop(flight);
    assert_eq!(in_flight(&flights), 0);
    assert_eq!(join(&flights, DIGEST, || async { 2 }).await, 2);
}
