//! Resolves API keys: from the cache, or by a look-up in the core.

use std::{collections::HashMap, fmt, sync::Arc, time::Duration};

use futures_util::FutureExt;
use moka::future::Cache;
use petstore_api_key::{ApiKey, KeyDigest};
use petstore_clock::{Clock, UnixMillis};
use petstore_proto::internal::v1::ResolvedKey;
use petstore_telemetry::metrics::Collectors;
use tokio::time::{Instant, sleep};

use super::{
    KeyError, KnownKey, LastBan, UnusableKey,
    bans::ImposedBans,
    cached_key::{CacheState, CachedKey, LastUsed},
    changes::{Changes, Stamp},
    core::{CoreAway, KeyService},
    early_reads::EarlyReads,
    lookups::{Lookups, Overloaded, Purpose},
    metrics::KeyMetrics,
    single_flight::SingleFlight,
};
use crate::{client_address::ClientAddress, core_client::TracedTransport, rate_limit::RateLimiter};

/// The most keys that are remembered.
const MAX_KNOWN: u64 = 50_000;

/// The most digests of which it is remembered that no key has them.
const MAX_UNKNOWN: u64 = 10_000;

/// How long that is remembered.
const UNKNOWN_FOR: Duration = Duration::from_secs(5);

/// How often the core is asked for changes.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// How often while it does not answer, so that its return is soon noticed.
const POLL_INTERVAL_AWAY: Duration = Duration::from_millis(250);

/// How often uses are reported.
const USE_REPORT_INTERVAL: Duration = Duration::from_secs(10);

/// How long after a failure the core is told of bans again.
const BAN_RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// How often the core may answer a question with what it has itself declared outdated.
const ATTEMPTS: usize = 3;

/// Resolves keys, and remembers them for as long as that may be trusted: until their account changes, or
/// thirty seconds after they were last confirmed. Clones share what they know.
///
/// Keys are compared by their SHA-256 digest alone, so that no time tells how much of a guess was right.
#[derive(Clone)]
pub struct KeyResolver(Arc<Inner>);

struct Inner {
    core: Arc<KeyService>,
    clock: Clock,
    changes: Arc<Changes>,
    known: Cache<KeyDigest, Arc<CachedKey>>,
    /// Until when a digest is unknown.
    unknown: Cache<KeyDigest, UnixMillis>,
    /// By account.
    early_reads: Cache<i64, Arc<EarlyReads>>,
    single_flight: SingleFlight<Result<Arc<CachedKey>, KeyError>>,
    lookups: Lookups<Result<Arc<Found>, CoreAway>>,
    last_used: LastUsed,
    metrics: KeyMetrics,
    limiter: Arc<dyn RateLimiter>,
    imposed: ImposedBans,
}

/// What the core knows of the digests that it was asked about together.
struct Found {
    keys: HashMap<KeyDigest, ResolvedKey>,
    /// The core's revision of the answer, and which history that belongs to.
    revision: i64,
    history: u64,
    /// When the core was asked.
    asked_at: UnixMillis,
}

impl KeyResolver {
    /// A resolver that knows no key yet. It tells `limiter` the name of the installation.
    pub(crate) fn new(core: TracedTransport, limiter: Arc<dyn RateLimiter>, clock: Clock) -> Self {
        let (core, changes) = (Arc::new(KeyService::new(core)), Arc::<Changes>::default());
        Self(Arc::new(Inner {
            lookups: lookups(Arc::clone(&core), Arc::clone(&changes), clock.clone()),
            core,
            clock,
            changes,
            known: Cache::new(MAX_KNOWN),
            unknown: Cache::builder().max_capacity(MAX_UNKNOWN).time_to_live(UNKNOWN_FOR).build(),
            early_reads: Cache::new(MAX_KNOWN),
            single_flight: SingleFlight::default(),
            last_used: LastUsed::default(),
            metrics: KeyMetrics::default(),
            imposed: ImposedBans::default(),
            limiter,
        }))
    }

    /// The key, if it may be used now. Asks the core if need be, once for all who ask at the same time, and
    /// together with others that wait. Waits for two seconds at most for its turn, and for a second for each
    /// answer. While more wait than can be asked about, addresses such as `from` take turns.
    ///
    /// # Errors
    /// See [`KeyError`].
    pub async fn resolve(&self, key: &ApiKey, from: ClientAddress) -> Result<Arc<KnownKey>, UnusableKey> {
        let digest = key.digest();
        let state = self.0.cached(&digest).await;
        self.0.metrics.requested(&state);
        let entry = match state {
            CacheState::Key(entry) => entry,
            CacheState::UnknownKey => return Err(KeyError::Unknown.into()),
            CacheState::Outdated | CacheState::Missing => {
                let resolver = Arc::clone(&self.0);
                self.0.single_flight.join(digest, || resolver.look_up(digest, from)).await?
            }
        };
        if !self.0.limiter.knows_installation() {
            Box::pin(self.0.poll_changes()).await; // the first answer names it; keys are not counted before
        }
        let now = self.0.clock.now();
        let known = match entry.usable(now) {
            Ok(key) => Arc::clone(key),
            Err(error) => return Err(UnusableKey { error, key: Some(Arc::clone(&entry.key)) }),
        };
        self.0.last_used.note(&entry, now);
        Ok(known)
    }

    /// Returns the key's last ban, as the core and this gateway know it.
    pub(crate) fn last_ban(&self, key: &KnownKey) -> Option<LastBan> {
        self.0.imposed.last_ban(key)
    }

    /// Bans a key whose strikes were too many at `from`, and has that reported to the core. Returns `false`
    /// if that moment is settled already, by a ban or its lifting.
    pub(crate) fn ban(&self, key: &KnownKey, from: UnixMillis) -> bool {
        self.0.imposed.impose(key, from, self.0.clock.now())
    }

    /// Asks the core which accounts changed, and for the name of the installation: once, for a core in the
    /// same process.
    pub async fn poll_once(&self) {
        self.0.poll_changes().await;
    }

    /// Asks the core once a second which accounts changed, and tells it of bans, and now and then when keys
    /// were last used, until `shutdown`. Without this, keys are trusted for thirty seconds whatever happens
    /// to them.
    pub async fn keep_current(self, shutdown: impl Future<Output = ()>) {
        let follow = async {
            let mut reported = Instant::now();
            loop {
                self.0.poll_changes().await;
                if reported.elapsed() >= USE_REPORT_INTERVAL {
                    self.0.report_uses().await;
                    reported = Instant::now();
                }
                sleep(if self.core_is_up() { POLL_INTERVAL } else { POLL_INTERVAL_AWAY }).await;
            }
        };
        let report_bans = async {
            loop {
                self.0.imposed.added().await;
                while self.0.report_bans().await.is_err() {
                    sleep(BAN_RETRY_INTERVAL).await;
                }
            }
        };
        tokio::select! {
            () = shutdown => {}
            () = follow => {}
            () = report_bans => {}
        }
        let _ = self.0.report_bans().await; // what fails now is lost
        self.0.report_uses().await;
    }

    /// How often keys were remembered, and how often the core was asked.
    pub(crate) fn metrics(&self) -> Collectors {
        self.0.metrics.collectors()
    }

    /// Returns `true` once the core has listed changed accounts, while it has every method that a gateway
    /// needs.
    #[must_use]
    pub fn core_has_been_ready(&self) -> bool {
        self.0.core.has_been_ready()
    }

    /// Returns `true` if it listed them when it was last asked.
    #[must_use]
    pub fn core_is_up(&self) -> bool {
        self.0.core.is_up()
    }
}

impl Inner {
    async fn cached(&self, digest: &KeyDigest) -> CacheState {
        let now = self.clock.now();
        match self.known.get(digest).await {
            Some(entry) if self.changes.confirm(entry.stamp, now) => CacheState::Key(entry),
            Some(_) => CacheState::Outdated,
            None => match self.unknown.get(digest).await {
                Some(until) if now < until && until <= now.plus(UNKNOWN_FOR) => CacheState::UnknownKey,
                Some(_) | None => CacheState::Missing,
            },
        }
    }

    async fn look_up(
        self: Arc<Self>,
        digest: KeyDigest,
        from: ClientAddress,
    ) -> Result<Arc<CachedKey>, KeyError> {
        let purpose = match self.cached(&digest).await {
            CacheState::Key(entry) => return Ok(entry),
            CacheState::UnknownKey => return Err(KeyError::Unknown),
            CacheState::Outdated => Purpose::Refresh,
            CacheState::Missing => Purpose::Unknown(from),
        };
        let found = self.call(digest, purpose).await;
        self.metrics.looked_up(found.as_ref().err());
        match &found {
            Ok(entry) => self.known.insert(digest, Arc::clone(entry)).await,
            Err(KeyError::Unknown) => {
                self.known.invalidate(&digest).await;
                self.unknown.insert(digest, self.clock.now().plus(UNKNOWN_FOR)).await;
            }
            Err(_) => {}
        }
        found
    }

    /// The core's answer, if it holds: one that was overtaken by a change already told of must not be kept.
    async fn call(&self, digest: KeyDigest, purpose: Purpose) -> Result<Arc<CachedKey>, KeyError> {
        for _ in 0..ATTEMPTS {
            let answer = self.lookups.find(digest, purpose).await;
            let found = answer.map_err(|Overloaded| KeyError::Overloaded)?;
            let found = found.map_err(|CoreAway| KeyError::CoreAway)?;
            let key = found.keys.get(&digest).cloned().ok_or(KeyError::Unknown)?;
            let Found { revision, history, asked_at, .. } = *found;
            let stamp = Stamp { account_id: key.account_id, revision, history, asked_at };
            let early_reads = self.early_reads.get_with(key.account_id, async { Arc::default() }).await;
            let Some(entry) = CachedKey::read(key, early_reads, stamp) else {
                tracing::error!("the core's answer about an API key makes no sense: is it a newer version?");
                return Err(KeyError::CoreAway);
            };
            if self.changes.admit(stamp) {
                return Ok(Arc::new(entry));
            }
        }
        tracing::debug!("the core's answers about an API key are older than the changes it told of");
        Err(KeyError::CoreAway)
    }

    async fn poll_changes(&self) {
        let (asked_at, after) = (self.clock.now(), self.changes.revision());
        if let Ok(answer) = self.core.list_changes(after).await {
            self.limiter.set_installation(&answer.installation);
            self.changes.learn(&answer, after, asked_at);
        }
    }

    /// Reports new bans, until the core does not answer. Its answer is as good as the change feed's: the key
    /// is looked up again, with the ban that holds then.
    async fn report_bans(&self) -> Result<(), CoreAway> {
        for ban in self.imposed.unreported() {
            let (asked_at, history) = (self.clock.now(), self.changes.history());
            let Some(answer) = self.core.report_ban(&ban).await? else {
                self.imposed.refused(&ban);
                continue;
            };
            let (account_id, revision) = (ban.account_id, answer.revision);
            self.changes.learn_early(Stamp { account_id, revision, history, asked_at });
            self.imposed.reported(&ban);
        }
        Ok(())
    }

    async fn report_uses(&self) {
        self.core.report(&self.last_used.take()).await;
    }
}

/// Asks the core about many keys at once.
fn lookups(
    core: Arc<KeyService>,
    changes: Arc<Changes>,
    clock: Clock,
) -> Lookups<Result<Arc<Found>, CoreAway>> {
    Lookups::new(move |digests| {
        let (core, changes, clock) = (Arc::clone(&core), Arc::clone(&changes), clock.clone());
        let call = async move {
            let (asked_at, history) = (clock.now(), changes.history());
            let answer = core.resolve(&digests).await?;
            // What does not fit is no answer about a key that was asked about.
            let keys = answer
                .keys
                .into_iter()
                .filter_map(|found| Some((KeyDigest(found.digest.try_into().ok()?), found.key?)));
            Ok(Arc::new(Found { keys: keys.collect(), revision: answer.revision, history, asked_at }))
        };
        call.boxed()
    })
}

/// Shows nothing of what it knows.
impl fmt::Debug for KeyResolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyResolver").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
