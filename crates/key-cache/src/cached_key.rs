//! A cached key, the time of its last use, and the metrics of the cache and of lookups in the core.

use std::{
    collections::HashMap,
    mem,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use petstore_caller::{client_address::AllowedAddresses, plans::Quota};
use petstore_clock::UnixMillis;
use petstore_proto::internal::v1::{AccountChange, KeyState, KeyUse, Plan, ResolvedKey};
use petstore_telemetry::metrics;
use petstore_telemetry::metrics::{Histogram, IntCounterVec, counters, durations};

use super::{KeyError, KnownKey, LastBan, changes::Stamp};

/// The core's answer about a key that exists, or did exist.
pub(super) struct CachedKey {
    pub(super) key: Arc<KnownKey>,
    /// Revision and time of the answer.
    pub(super) stamp: Stamp,
    usability: Result<(), KeyError>,
    /// Unix milliseconds of the last use; 0 before the first.
    last_used_at: AtomicU64,
    /// `true` if the last use is to be reported.
    reported_soon: AtomicBool,
}

impl CachedKey {
    /// Converts the core's answer. Returns `None` if it is invalid.
    pub(super) fn read(answer: ResolvedKey, stamp: Stamp) -> Option<Self> {
        let usability = match KeyState::try_from(answer.state).ok()? {
            KeyState::Unspecified => return None,
            KeyState::Active => Ok(()),
            KeyState::Revoked => match answer.suspension {
                Some(suspension) => Err(KeyError::AccountSuspended(suspension.reason.into())),
                None => Err(KeyError::Revoked),
            },
            KeyState::Expired => Err(KeyError::Expired),
        };
        let positive = |limit: i64| u64::try_from(limit).ok().filter(|limit| *limit > 0);
        let quota = Quota { per_minute: positive(answer.per_minute)?, per_day: positive(answer.per_day)? };
        // A newer core may have plans that this gateway does not know: only the quota matters.
        let plan = Plan::try_from(answer.plan).unwrap_or(Plan::Unspecified);
        let last_ban = LastBan::from_core(answer.last_ban, answer.bans_lifted_at_ms);
        let key = KnownKey::new(answer.key_id.into(), answer.account_id, plan, quota);
        let key = KnownKey {
            expires_at: answer.expires_at_ms.map(|at| UnixMillis(at.try_into().unwrap_or(0))),
            last_four: answer.last_four.into(),
            label: answer.label.into(),
            is_read_only: answer.read_only,
            allowed_addresses: AllowedAddresses::parse(answer.allowed_addresses.iter().map(String::as_str))
                .ok()?,
            last_ban,
            ..key
        };
        Some(Self {
            key: Arc::new(key),
            stamp,
            usability,
            last_used_at: AtomicU64::new(0),
            reported_soon: AtomicBool::new(false),
        })
    }

    /// Returns the key if it may be used now, by the core's clock. Expiry is checked here, without asking the
    /// core again.
    pub(super) fn usable(&self, now: UnixMillis) -> Result<&Arc<KnownKey>, KeyError> {
        self.usability.clone()?;
        if self.key.expires_at.is_some_and(|expires_at| expires_at <= now) {
            return Err(KeyError::Expired);
        }
        Ok(&self.key)
    }
}

/// State of a digest in the cache.
pub(super) enum CacheState {
    Key(Arc<CachedKey>),
    UnknownKey,
    /// The key is cached, but may be stale.
    Outdated,
    Missing,
}

/// Keys used since the last report: up to twice as many as the resolver caches.
#[derive(Default)]
pub(super) struct LastUsed(Mutex<Vec<Arc<CachedKey>>>);

impl LastUsed {
    /// Notes a use. Only a key's first use since the last report takes the lock.
    pub(super) fn note(&self, entry: &Arc<CachedKey>, now: UnixMillis) {
        entry.last_used_at.fetch_max(now.0, Ordering::Relaxed);
        // Reads first, so that of many threads that use one key only the first one writes.
        let is_first =
            !entry.reported_soon.load(Ordering::Relaxed) && !entry.reported_soon.swap(true, Ordering::AcqRel);
        if is_first {
            let mut waiting = self.0.lock();
            if waiting.len() < 100_000 {
                waiting.push(Arc::clone(entry));
            }
        }
    }

    /// Takes the uses to report, one for each key.
    pub(super) fn take(&self) -> Vec<KeyUse> {
        let waiting = mem::take(&mut *self.0.lock());
        // A key that was resolved again meanwhile has two entries.
        let mut uses = HashMap::with_capacity(waiting.len());
        for entry in &waiting {
            let last_use: &mut u64 = uses.entry(&*entry.key.key_id).or_default();
            entry.reported_soon.store(false, Ordering::Release);
            *last_use = entry.last_used_at.load(Ordering::Relaxed).max(*last_use);
        }
        let report = |(key_id, at): (&str, u64)| KeyUse {
            key_id: key_id.to_owned(),
            last_used_at_ms: i64::try_from(at).unwrap_or(i64::MAX),
        };
        uses.into_iter().map(report).collect()
    }
}

/// Revisions above this are times in milliseconds; no count of changes reaches it. It is in 2001.
const FIRST_TIME: i64 = 1_000_000_000_000;

metrics! {
    pub(super) struct KeyMetrics(prefix) {
        cache: IntCounterVec = counters(
            &format!("{prefix}key_cache_requests_total"),
            "Requests with a well-formed key, by its state in the gateway's cache.",
            &["result"],
        ),
        lookups: IntCounterVec = counters(
            &format!("{prefix}key_lookups_total"),
            "Key lookups in the core, by their result.",
            &["result"],
        ),
        change_delay: Histogram = durations(
            &format!("{prefix}key_change_delay_seconds"),
            "Time until this gateway applied a change of a key or account, by the cores' clocks.",
            &[],
        )
        .with_label_values::<&str>(&[]),
    }
}

impl KeyMetrics {
    pub(super) fn requested(&self, state: &CacheState) {
        let result = match state {
            CacheState::Key(_) => "hit",
            CacheState::UnknownKey => "hit_unknown",
            CacheState::Outdated => "outdated",
            CacheState::Missing => "miss",
        };
        self.cache.with_label_values(&[result]).inc();
    }

    /// Records how long ago the listed accounts changed. A revision is the time of its change; 1.0.0 counts
    /// from 1, which says nothing about time.
    pub(super) fn changed(&self, changes: &[AccountChange], now: UnixMillis) {
        for change in changes.iter().filter(|change| change.revision > FIRST_TIME) {
            let delay = now.as_i64().saturating_sub(change.revision).max(0);
            self.change_delay.observe(Duration::from_millis(delay.unsigned_abs()).as_secs_f64());
        }
    }

    /// Counts a lookup; `error` is the reason if it found no usable key.
    pub(super) fn looked_up(&self, error: Option<&KeyError>) {
        let result = match error {
            None => "found",
            Some(KeyError::Missing | KeyError::Unknown) => "unknown",
            Some(KeyError::Revoked) => "revoked",
            Some(KeyError::Expired) => "expired",
            // A lookup does not look at the client's address.
            Some(KeyError::AccountSuspended(_) | KeyError::AddressNotAllowed) => "suspended",
            Some(KeyError::CoreAway) => "core_away",
            Some(KeyError::Overloaded) => "overloaded",
        };
        self.lookups.with_label_values(&[result]).inc();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer() -> ResolvedKey {
        ResolvedKey {
            key_id: "key".to_owned(),
            account_id: 1,
            state: KeyState::Active.into(),
            expires_at_ms: Some(1_000),
            plan: Plan::Free.into(),
            per_minute: 60,
            per_day: 1_000,
            ..ResolvedKey::default()
        }
    }

    fn entry(answer: ResolvedKey) -> Option<CachedKey> {
        let stamp = Stamp { account_id: 1, revision: 1, history: 0, asked_at: UnixMillis(0) };
        CachedKey::read(answer, stamp)
    }

    #[test]
    fn a_key_of_a_suspended_account_is_not_called_revoked() {
        let suspension = Some(petstore_proto::internal::v1::Suspension { reason: "open invoice".to_owned() });
        let entry = entry(ResolvedKey { state: KeyState::Revoked.into(), suspension, ..answer() }).unwrap();
        assert_eq!(entry.usable(UnixMillis(0)), Err(KeyError::AccountSuspended("open invoice".into())));
    }

    #[test]
    fn an_answer_without_a_state_or_with_a_limit_of_zero_is_invalid() {
        assert!(entry(ResolvedKey { state: 0, ..answer() }).is_none());
        assert!(entry(ResolvedKey { state: 99, ..answer() }).is_none());
        assert!(entry(ResolvedKey { per_minute: 0, ..answer() }).is_none());
        assert!(entry(ResolvedKey { per_day: -1, ..answer() }).is_none());
    }

    #[test]
    fn a_key_whose_addresses_cannot_be_read_is_not_used_from_everywhere() {
        let allowed_addresses = vec!["10.0.0.0/8".to_owned(), "localhost".to_owned()];
        assert!(entry(ResolvedKey { allowed_addresses, ..answer() }).is_none());
    }

    #[test]
    fn a_plan_of_a_newer_core_is_accepted_with_its_quota() {
        let entry = entry(ResolvedKey { plan: 99, ..answer() }).unwrap();
        assert_eq!((entry.key.plan, entry.key.quota.per_minute), (Plan::Unspecified, 60));
    }
}
