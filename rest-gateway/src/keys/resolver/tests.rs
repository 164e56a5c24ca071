use std::{future, net::Ipv4Addr};

use futures_util::{
    future::{join_all, select_all},
    poll,
};
use petstore_api_key::Environment;
use petstore_clock::ManualClock;
use petstore_proto::internal::v1::{KeyState, KeyUse};
use tokio::sync::oneshot;

use super::*;
use crate::{
    keys::core_double::CoreDouble,
    rate_limit::{BanPeriod, InProcessLimiter, Quota},
};

const START: UnixMillis = UnixMillis(1_795_200_000_000);

struct Rig {
    core: CoreDouble,
    resolver: KeyResolver,
    hand: ManualClock,
}

impl Rig {
    fn new() -> Self {
        let core = CoreDouble::new();
        let (clock, hand) = Clock::manual(START);
        let limiter = Arc::new(InProcessLimiter::new(clock.clone()));
        Self { resolver: KeyResolver::new(core.transport().into(), limiter, clock), core, hand }
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
        Arc::clone(&self.resolver.0).look_up(key.digest(), address()).await
    }

    async fn poll_changes(&self) {
        self.resolver.0.poll_changes().await;
    }
}

fn address() -> ClientAddress {
    std::net::IpAddr::from(Ipv4Addr::LOCALHOST).into()
}

#[tokio::test]
async fn a_key_is_known_with_its_account_plan_and_quota() {
    let rig = Rig::new();
    let key = rig.new_key(7);
    let known = rig.resolve(&key).await.unwrap();
    assert_eq!((known.account_id, known.quota.per_minute, known.quota.per_day), (7, 60, 1_000));
    assert_eq!(&*known.key_id, "key-1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_thousand_concurrent_first_uses_of_a_key_make_one_call() {
    let rig = Rig::new();
    let key = rig.new_key(1);
    rig.core.hold_answers(true);
    let uses = (0..1_000).map(|_| {
        let (keys, key) = (rig.resolver.clone(), key.clone());
        tokio::spawn(async move { keys.resolve(&key, address()).await })
    });
    let uses: Vec<_> = uses.collect();
    while rig.core.resolved() == 0 {
        tokio::task::yield_now().await;
    }
    rig.core.hold_answers(false);
    for answer in join_all(uses).await {
        assert!(answer.unwrap().is_ok());
    }
    assert_eq!(rig.core.resolved(), 1);
}

#[tokio::test]
async fn a_lookup_just_after_another_makes_no_call() {
    let rig = Rig::new();
    let key = rig.new_key(1);
    rig.look_up(&key).await.unwrap();
    rig.look_up(&key).await.unwrap();
    assert_eq!(rig.core.resolved(), 1);
}

#[tokio::test]
async fn an_unknown_key_is_cached_for_five_seconds() {
    let rig = Rig::new();
    let key = ApiKey::generate(Environment::Production);
    for _ in 0..3 {
        assert_eq!(rig.resolve(&key).await, Err(KeyError::Unknown));
    }
    assert_eq!(rig.core.resolved(), 1);
    rig.waits(5);
    rig.core.set(&key, 1, |_| {});
    assert!(rig.resolve(&key).await.is_ok());
}

#[tokio::test]
async fn revoked_and_expired_keys_are_distinguished_and_cached() {
    for (state, fault) in [(KeyState::Revoked, KeyError::Revoked), (KeyState::Expired, KeyError::Expired)] {
        let rig = Rig::new();
        let key = rig.new_key(1);
        rig.core.set(&key, 1, |key| key.state = state.into());
        for _ in 0..3 {
            assert_eq!(rig.resolve(&key).await, Err(fault.clone()));
        }
        assert_eq!(rig.core.resolved(), 1);
    }
}

#[tokio::test]
async fn a_key_expires_on_time_without_a_call() {
    let rig = Rig::new();
    let key = rig.new_key(1);
    let expiry = i64::try_from(START.0).unwrap() + 3_000;
    rig.core.set(&key, 1, |key| key.expires_at_ms = Some(expiry));
    rig.waits(2);
    assert!(rig.resolve(&key).await.is_ok());
    rig.waits(1);
    assert_eq!(rig.resolve(&key).await, Err(KeyError::Expired));
    assert_eq!(rig.core.resolved(), 1);
}

#[tokio::test]
async fn a_change_from_the_feed_acts_at_once_and_only_on_its_account() {
    let rig = Rig::new();
    let (key, other) = (rig.new_key(1), rig.new_key(2));
    rig.resolve(&key).await.unwrap();
    rig.resolve(&other).await.unwrap();
    rig.poll_changes().await;

    rig.core.set(&key, 1, |key| key.per_minute = 300);
    assert_eq!(rig.resolve(&key).await.unwrap().quota.per_minute, 60);
    rig.poll_changes().await;
    assert_eq!(rig.resolve(&key).await.unwrap().quota.per_minute, 300);

    rig.core.set(&key, 1, |key| key.state = KeyState::Revoked.into());
    rig.poll_changes().await;
    assert_eq!(rig.resolve(&key).await, Err(KeyError::Revoked));

    assert_eq!(rig.core.resolved(), 4);
    rig.resolve(&other).await.unwrap();
    assert_eq!(rig.core.resolved(), 4);
}

#[tokio::test]
async fn a_key_is_trusted_for_thirty_seconds_while_the_core_is_unreachable() {
    let rig = Rig::new();
    let key = rig.new_key(1);
    rig.resolve(&key).await.unwrap();
    rig.core.state().away = true;
    rig.poll_changes().await;
    rig.waits(29);
    assert!(rig.resolve(&key).await.is_ok());
    rig.waits(1);
    assert_eq!(rig.resolve(&key).await, Err(KeyError::CoreAway));
    rig.core.state().away = false;
    rig.poll_changes().await;
    assert!(rig.resolve(&key).await.is_ok(), "an outage is not remembered");
    assert_eq!(rig.core.resolved(), 1, "what did not change meanwhile is confirmed without being asked for");
}

#[tokio::test]
async fn without_a_change_feed_a_key_is_looked_up_every_thirty_seconds() {
    let rig = Rig::new();
    let key = rig.new_key(1);
    for _ in 0..5 {
        rig.resolve(&key).await.unwrap();
        rig.waits(15);
    }
    assert_eq!(rig.core.resolved(), 3);
}

#[tokio::test]
async fn an_unreachable_core_is_not_called_until_it_is_back() {
    let rig = Rig::new();
    let key = rig.new_key(1);
    assert!(!rig.resolver.core_has_been_ready() && !rig.resolver.core_is_up());
    rig.core.state().away = true;
    rig.poll_changes().await;
    rig.core.state().away = false;
    assert_eq!(rig.resolve(&key).await, Err(KeyError::CoreAway));
    assert_eq!(rig.core.resolved(), 0);
    rig.poll_changes().await;
    assert!(rig.resolver.core_has_been_ready() && rig.resolver.core_is_up());
    assert!(rig.resolve(&key).await.is_ok());
}

#[tokio::test]
async fn an_answer_overtaken_by_a_change_is_neither_used_nor_kept() {
    let rig = Rig::new();
    let key = rig.new_key(1);
    rig.core.hold_answers(true);
    let mut resolving = Box::pin(rig.resolve(&key));
    while rig.core.resolved() == 0 {
        assert!(poll!(&mut resolving).is_pending());
        tokio::task::yield_now().await;
    }
    rig.core.set(&key, 1, |key| key.state = KeyState::Revoked.into());
    rig.poll_changes().await;
    rig.core.hold_answers(false);
    assert_eq!(resolving.await, Err(KeyError::Revoked));
    assert_eq!(rig.resolve(&key).await, Err(KeyError::Revoked));
    assert_eq!(rig.core.resolved(), 2);
}

#[tokio::test]
async fn a_core_restored_from_a_backup_invalidates_every_key() {
    let rig = Rig::new();
    let key = rig.new_key(1);
    for _ in 0..5 {
        rig.core.set(&key, 1, |_| {});
    }
    rig.resolve(&key).await.unwrap();
    rig.poll_changes().await;
    {
        let mut state = rig.core.state();
        state.revision = 1;
        state.changes.clear();
        state.keys.clear();
    }
    rig.poll_changes().await;
    assert_eq!(rig.resolve(&key).await, Err(KeyError::Unknown));
}

#[tokio::test]
async fn cancelled_lookups_do_not_delay_others() {
    let rig = Rig::new();
    rig.core.hold_answers(true);
    let keys: Vec<_> = (0..16).map(|account| rig.new_key(account)).collect();
    let mut abandoned = Vec::new();
    for (number, key) in keys.iter().enumerate() {
        abandoned.push(Box::pin(rig.resolve(key)));
        while rig.core.resolved() <= number {
            assert!(poll!(select_all(&mut abandoned)).is_pending());
            tokio::task::yield_now().await;
        }
    }
    drop(abandoned);
    rig.core.hold_answers(false);
    assert!(rig.resolve(&rig.new_key(17)).await.is_ok());
}

#[tokio::test]
async fn uses_are_reported_once_per_key_with_the_last_time() {
    let rig = Rig::new();
    let key = rig.new_key(1);
    rig.resolve(&key).await.unwrap();
    rig.waits(40); // a second entry of the same key
    rig.resolve(&key).await.unwrap();
    rig.resolve(&key).await.unwrap();
    rig.resolver.0.report_uses().await;
    rig.resolver.0.report_uses().await;
    let reports = rig.core.state().reports.clone();
    let [report] = reports.as_slice() else { panic!("one report was due: {reports:?}") };
    let [used] = report.as_slice() else { panic!("one key was used: {report:?}") };
    assert_eq!(u64::try_from(used.last_used_at_ms), Ok(START.0 + 40_000));
}

#[tokio::test]
async fn of_two_entries_of_a_key_the_latest_use_is_reported() {
    let rig = Rig::new();
    let key = rig.new_key(1);
    let former = rig.look_up(&key).await.unwrap();
    rig.waits(40);
    let latter = rig.look_up(&key).await.unwrap();
    rig.resolver.0.last_used.note(&latter, UnixMillis(9));
    rig.resolver.0.last_used.note(&former, UnixMillis(5));
    let uses = rig.resolver.0.last_used.take();
    assert_eq!(uses.iter().map(|used| used.last_used_at_ms).collect::<Vec<_>>(), [9]);
}

#[tokio::test]
async fn a_report_has_at_most_a_thousand_keys() {
    let rig = Rig::new();
    for account in 0..1_001 {
        rig.resolve(&rig.new_key(account)).await.unwrap();
    }
    rig.resolver.0.report_uses().await;
    let sizes: Vec<_> = rig.core.state().reports.iter().map(Vec::len).collect();
    assert_eq!(sizes, [1_000, 1]);
}

#[tokio::test]
async fn a_refused_report_of_uses_does_not_drop_those_after_it() {
    let rig = Rig::new();
    rig.core.state().refused.insert("0".into());
    let key_use = |number: u32| KeyUse { key_id: number.to_string(), last_used_at_ms: 1 };
    let uses: Vec<_> = (0..2_001).map(key_use).collect();
    rig.resolver.0.core.report(&uses).await;
    let sizes: Vec<_> = rig.core.state().reports.iter().map(Vec::len).collect();
    assert_eq!(sizes, [1_000, 1]);
}

#[tokio::test]
async fn a_ban_whose_report_is_refused_holds_and_is_not_reported_again() {
    let rig = Rig::new();
    for account in 1..=2 {
        rig.resolve(&rig.new_key(account)).await.unwrap();
    }
    rig.core.state().refused.insert("key-1".into());
    let known = ["key-1", "key-2"].map(|id| {
        let quota = Quota { per_minute: 60, per_day: 1_000 };
        KnownKey::new(id.into(), 1, petstore_proto::internal::v1::Plan::Free, quota)
    });
    for key in &known {
        assert!(rig.resolver.ban(key, START));
    }
    for _ in 0..2 {
        assert_eq!(rig.resolver.0.report_bans().await, Ok(()));
        assert!(rig.resolver.last_ban(&known[0]).is_some());
    }
    let mut reported = rig.core.state().ban_reports.clone();
    reported.sort();
    assert_eq!(reported, ["key-1", "key-2"]);
}

#[tokio::test]
async fn the_answer_to_a_report_acts_before_the_feed() {
    let rig = Rig::new();
    let key = rig.new_key(1);
    let known = rig.resolve(&key).await.unwrap();
    assert_eq!(rig.resolver.last_ban(&known), None);
    assert!(rig.resolver.ban(&known, START));
    let imposed = BanPeriod { from: START, until: START.plus(Duration::from_mins(5)) };
    let is_banned = |known: &KnownKey| {
        let last_ban = rig.resolver.last_ban(known);
        last_ban.and_then(|last_ban| last_ban.in_force(START).map(|(period, _)| period))
    };
    assert_eq!(is_banned(&known), Some(imposed), "before it is reported");
    rig.resolver.0.report_bans().await.unwrap();
    let known = rig.resolve(&key).await.unwrap();
    assert_eq!((is_banned(&known), rig.core.resolved()), (Some(imposed), 2), "it was looked up again");

    rig.core.set(&key, 1, |key| (key.last_ban, key.bans_lifted_at_ms) = (None, Some(i64::MAX)));
    rig.poll_changes().await;
    let known = rig.resolve(&key).await.unwrap();
    assert_eq!(is_banned(&known), None);
    assert!(!rig.resolver.ban(&known, START.plus(Duration::from_hours(1))), "it is settled");
}

#[tokio::test]
async fn the_resolver_follows_the_core_until_shutdown_and_reports_the_last_uses() {
    let rig = Rig::new();
    rig.resolve(&rig.new_key(1)).await.unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let following = tokio::spawn(rig.resolver.clone().keep_current(async move { drop(stopped.await) }));
    while !rig.resolver.core_is_up() {
        tokio::task::yield_now().await;
    }
    stop.send(()).unwrap();
    following.await.unwrap();
    assert_eq!(rig.core.state().reports.len(), 1);
}

#[tokio::test]
async fn a_revocation_acts_within_five_seconds() {
    let rig = Rig::new();
    let key = rig.new_key(1);
    let follow = rig.resolver.clone().keep_current(future::pending());
    let revoke = async {
        while !rig.resolver.core_is_up() {
            tokio::task::yield_now().await;
        }
        rig.resolve(&key).await.unwrap();
        rig.core.set(&key, 1, |key| key.state = KeyState::Revoked.into());
        while rig.resolve(&key).await != Err(KeyError::Revoked) {
            sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        () = follow => panic!("nobody asked it to stop"),
        revoked = tokio::time::timeout(Duration::from_secs(5), revoke) => revoked.unwrap(),
    }
}

#[tokio::test]
async fn a_core_that_lacks_a_method_is_not_ready_until_it_has_it() {
    let rig = Rig::new();
    rig.core.state().lacks.insert("petstore.internal.v1.BatchService/Call");
    for (is_ready, lacks) in [(false, None), (true, Some("petstore.v1.PetStore/CreatePet")), (false, None)] {
        rig.poll_changes().await;
        assert_eq!((rig.resolver.core_has_been_ready(), rig.resolver.core_is_up()), (is_ready, true));
        rig.core.state().lacks = lacks.into_iter().collect();
    }
}

#[tokio::test]
async fn the_keys_of_an_account_share_its_early_reads() {
    let rig = Rig::new();
    let [one, other] = [rig.new_key(7), rig.new_key(7)];
    let [one, other] = [rig.resolve(&one).await.unwrap(), rig.resolve(&other).await.unwrap()];
    assert!(Arc::ptr_eq(&one.early_reads, &other.early_reads));
    let stranger = rig.resolve(&rig.new_key(8)).await.unwrap();
    assert!(!Arc::ptr_eq(&one.early_reads, &stranger.early_reads));
}
