use std::net::Ipv4Addr;

use futures_util::{future::join_all, poll};
use petstore_caller::api_key::Environment;
use petstore_caller::plans::{BanPeriod, Quota};
use petstore_clock::ManualClock;
use petstore_proto::internal::v1::{KeyState, KeyUse};
use petstore_telemetry::{metrics::Exposition, parts::PartState};
use tokio::sync::oneshot;

use super::*;
use crate::testing::{CoreDouble, METHODS};

mod reports;

const START: UnixMillis = UnixMillis(1_795_200_000_000);

struct ResolverUnderTest {
    core: CoreDouble,
    resolver: KeyResolver,
    hand: ManualClock,
}

impl ResolverUnderTest {
    fn new() -> Self {
        let core = CoreDouble::new();
        let (clock, hand) = Clock::manual(START);
        Self {
            resolver: KeyResolver::new(core.transport().into(), &METHODS, |_| {}, clock, "petstore_"),
            core,
            hand,
        }
    }

    fn waits(&self, secs: u64) {
        self.hand.advance(Duration::from_secs(secs));
    }

    /// Creates a key of the account that the core knows.
    fn new_key(&self, account_id: i64) -> ApiKey {
        let key = ApiKey::generate(Environment::Production);
        self.core.set(&key, account_id, |_| {});
        key
    }

    async fn resolve(&self, key: &ApiKey) -> Result<Arc<KnownKey>, KeyError> {
        self.resolver.resolve(key, address()).await.map_err(|unusable| unusable.error)
    }

    async fn look_up(&self, key: &ApiKey) -> Result<Arc<CachedKey>, KeyError> {
        Arc::clone(&self.resolver.0).look_up(key.digest(), address().into()).await
    }

    async fn poll_changes(&self) {
        self.resolver.0.poll_changes().await;
    }

    fn is_ready(&self) -> bool {
        self.resolver.core_fault().is_none_or(|fault| fault.state != PartState::Down)
    }
}

fn address() -> IpAddr {
    Ipv4Addr::LOCALHOST.into()
}

#[tokio::test]
async fn a_key_is_known_with_its_account_plan_and_quota() {
    let tested = ResolverUnderTest::new();
    let key = tested.new_key(7);
    let known = tested.resolve(&key).await.unwrap();
    assert_eq!((known.account_id, known.quota.per_minute, known.quota.per_day), (7, 60, 1_000));
    assert_eq!(&*known.key_id, "key-1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_thousand_concurrent_first_uses_of_a_key_make_one_call() {
    let tested = ResolverUnderTest::new();
    let key = tested.new_key(1);
    tested.core.hold_answers(true);
    let uses = (0..1_000).map(|_| {
        let (keys, key) = (tested.resolver.clone(), key.clone());
        tokio::spawn(async move { keys.resolve(&key, address()).await })
    });
    let uses: Vec<_> = uses.collect();
    while tested.core.resolved() == 0 {
        tokio::task::yield_now().await;
    }
    tested.core.hold_answers(false);
    for answer in join_all(uses).await {
        assert!(answer.unwrap().is_ok());
    }
    assert_eq!(tested.core.resolved(), 1);
}

#[tokio::test]
async fn a_lookup_just_after_another_makes_no_call() {
    let tested = ResolverUnderTest::new();
    let key = tested.new_key(1);
    tested.look_up(&key).await.unwrap();
    tested.look_up(&key).await.unwrap();
    assert_eq!(tested.core.resolved(), 1);
}

#[tokio::test]
async fn an_unknown_key_is_cached_for_five_seconds() {
    let tested = ResolverUnderTest::new();
    let key = ApiKey::generate(Environment::Production);
    for _ in 0..3 {
        assert_eq!(tested.resolve(&key).await, Err(KeyError::Unknown));
    }
    assert_eq!(tested.core.resolved(), 1);
    tested.waits(5);
    tested.core.set(&key, 1, |_| {});
    assert!(tested.resolve(&key).await.is_ok());
}

#[tokio::test]
async fn revoked_and_expired_keys_are_distinguished_and_cached() {
    for (state, fault) in [(KeyState::Revoked, KeyError::Revoked), (KeyState::Expired, KeyError::Expired)] {
        let tested = ResolverUnderTest::new();
        let key = tested.new_key(1);
        tested.core.set(&key, 1, |key| key.state = state.into());
        for _ in 0..3 {
            assert_eq!(tested.resolve(&key).await, Err(fault.clone()));
        }
        assert_eq!(tested.core.resolved(), 1);
    }
}

#[tokio::test]
async fn a_key_expires_on_time_without_a_call() {
    let tested = ResolverUnderTest::new();
    let key = tested.new_key(1);
    let expiry = i64::try_from(START.0).unwrap() + 3_000;
    tested.core.set(&key, 1, |key| key.expires_at_ms = Some(expiry));
    tested.waits(2);
    assert!(tested.resolve(&key).await.is_ok());
    tested.waits(1);
    assert_eq!(tested.resolve(&key).await, Err(KeyError::Expired));
    assert_eq!(tested.core.resolved(), 1);
}

#[tokio::test]
async fn a_key_expires_by_the_cores_clock() {
    for ahead in [-60_000, 60_000] {
        let tested = ResolverUnderTest::new();
        let key = tested.new_key(1);
        let core_now = |secs: i64| START.as_i64() + ahead + 1_000 * secs;
        tested.core.state().now_ms = Some(core_now(0));
        tested.core.set(&key, 1, |key| key.expires_at_ms = Some(core_now(10)));
        assert!(tested.resolve(&key).await.is_ok(), "{ahead}");
        tested.waits(9);
        assert!(tested.resolve(&key).await.is_ok(), "{ahead}");
        tested.waits(1);
        assert_eq!(tested.resolve(&key).await, Err(KeyError::Expired), "{ahead}");
        assert_eq!(tested.core.resolved(), 1);
    }
}

#[tokio::test]
async fn a_step_of_the_gateways_clock_moves_no_expiry() {
    let tested = ResolverUnderTest::new();
    let key = tested.new_key(1);
    let core_now = |secs: i64| START.as_i64() + 1_000 * secs;
    tested.core.state().now_ms = Some(core_now(0));
    tested.core.set(&key, 1, |key| key.expires_at_ms = Some(core_now(60)));
    assert!(tested.resolve(&key).await.is_ok());
    for (step, seconds, expected) in [(3_600, 59, Ok(())), (1, 60, Err(KeyError::Expired))] {
        tested.waits(step);
        tested.core.state().now_ms = Some(core_now(seconds));
        tested.poll_changes().await;
        assert_eq!(tested.resolve(&key).await.map(drop), expected);
    }
    assert_eq!(tested.core.resolved(), 1);
}

#[tokio::test]
async fn a_change_from_the_feed_acts_at_once_and_only_on_its_account() {
    let tested = ResolverUnderTest::new();
    let (key, other) = (tested.new_key(1), tested.new_key(2));
    tested.resolve(&key).await.unwrap();
    tested.resolve(&other).await.unwrap();
    tested.poll_changes().await;

    tested.core.set(&key, 1, |key| key.per_minute = 300);
    assert_eq!(tested.resolve(&key).await.unwrap().quota.per_minute, 60);
    tested.poll_changes().await;
    assert_eq!(tested.resolve(&key).await.unwrap().quota.per_minute, 300);

    tested.core.set(&key, 1, |key| key.state = KeyState::Revoked.into());
    tested.poll_changes().await;
    assert_eq!(tested.resolve(&key).await, Err(KeyError::Revoked));

    assert_eq!(tested.core.resolved(), 4);
    tested.resolve(&other).await.unwrap();
    assert_eq!(tested.core.resolved(), 4);
}

#[tokio::test]
async fn a_key_is_trusted_for_thirty_seconds_while_the_core_is_unreachable() {
    let tested = ResolverUnderTest::new();
    let key = tested.new_key(1);
    tested.resolve(&key).await.unwrap();
    tested.core.state().away = true;
    tested.poll_changes().await;
    tested.waits(29);
    assert!(tested.resolve(&key).await.is_ok());
    tested.waits(1);
    assert_eq!(tested.resolve(&key).await, Err(KeyError::CoreAway));
    tested.core.state().away = false;
    tested.poll_changes().await;
    assert!(tested.resolve(&key).await.is_ok(), "an outage is not remembered");
    assert_eq!(
        tested.core.resolved(),
        1,
        "what did not change meanwhile is confirmed without being asked for"
    );
}

#[tokio::test]
async fn an_unreachable_core_is_not_called_until_it_is_back() {
    let tested = ResolverUnderTest::new();
    let key = tested.new_key(1);
    assert!(!tested.is_ready() && !tested.resolver.core_is_up());
    tested.core.state().away = true;
    tested.poll_changes().await;
    tested.core.state().away = false;
    assert_eq!(tested.resolve(&key).await, Err(KeyError::CoreAway));
    assert_eq!(tested.core.resolved(), 0);
    tested.poll_changes().await;
    assert!(tested.is_ready() && tested.resolver.core_is_up());
    assert!(tested.resolve(&key).await.is_ok());
}

#[tokio::test]
async fn an_answer_overtaken_by_a_change_is_neither_used_nor_kept() {
    let tested = ResolverUnderTest::new();
    let key = tested.new_key(1);
    tested.core.hold_answers(true);
    let mut resolving = Box::pin(tested.resolve(&key));
    while tested.core.resolved() == 0 {
        assert!(poll!(&mut resolving).is_pending());
        tokio::task::yield_now().await;
    }
    tested.core.set(&key, 1, |key| key.state = KeyState::Revoked.into());
    tested.poll_changes().await;
    tested.core.hold_answers(false);
    assert_eq!(resolving.await, Err(KeyError::Revoked));
    assert_eq!(tested.resolve(&key).await, Err(KeyError::Revoked));
    assert_eq!(tested.core.resolved(), 2);
}

#[tokio::test]
async fn the_resolver_follows_the_core_until_shutdown_and_reports_the_last_uses() {
    let tested = ResolverUnderTest::new();
    tested.resolve(&tested.new_key(1)).await.unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let following = tokio::spawn(tested.resolver.clone().keep_current(async move { drop(stopped.await) }));
    while !tested.resolver.core_is_up() {
        tokio::task::yield_now().await;
    }
    stop.send(()).unwrap();
    following.await.unwrap();
    assert_eq!(tested.core.state().reports.len(), 1);
}

#[tokio::test]
async fn a_core_that_lacks_a_method_is_not_ready_until_it_has_it() {
    let tested = ResolverUnderTest::new();
    tested.core.state().lacks.insert("petstore.internal.v1.BatchService/Call");
    for (is_ready, lacks) in
        [(false, None), (true, Some("petstore.internal.v1.KeyService/ResolveKeys")), (false, None)]
    {
        tested.poll_changes().await;
        assert_eq!((tested.is_ready(), tested.resolver.core_is_up()), (is_ready, true));
        tested.core.state().lacks = lacks.into_iter().collect();
    }
}

#[tokio::test]
async fn the_delay_of_a_change_is_measured_from_its_revision() {
    let tested = ResolverUnderTest::new();
    let exposition = Exposition::default();
    exposition.add(tested.resolver.metrics());
    let at = |secs: i64| START.as_i64() + secs * 1_000;
    for (change, now, (count, late)) in [
        (at(-9), at(0), (0, 0)), // it was before the gateway's start
        (at(1), at(2), (1, 0)),
        (at(3), at(9), (2, 1)),
        (at(12), at(10), (3, 1)), // by the clock of another core
        (at(13), at(13), (4, 1)),
    ] {
        tested.core.state().revision = change - 1;
        tested.new_key(1);
        tested.core.state().now_ms = Some(now);
        tested.poll_changes().await;
        let text = exposition.text();
        let sample = |name: &str| {
            let name = format!("petstore_key_change_delay_seconds_{name} ");
            let line = text.lines().find_map(|line| line.strip_prefix(&name));
            line.unwrap().parse::<u64>().unwrap()
        };
        let seen = sample("count");
        assert_eq!((seen, seen - sample("bucket{le=\"5\"}")), (count, late), "{text}");
    }
}

#[tokio::test]
async fn revisions_that_count_from_one_are_no_times() {
    let tested = ResolverUnderTest::new();
    let exposition = Exposition::default();
    exposition.add(tested.resolver.metrics());
    for account_id in 1..=3 {
        tested.new_key(account_id);
        tested.poll_changes().await;
    }
    let text = exposition.text();
    assert!(text.contains("petstore_key_change_delay_seconds_count 0\n"), "{text}");
}
