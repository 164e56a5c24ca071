//! Resolves API keys: from the cache, or by a lookup in the core.

use std::{collections::HashMap, net::IpAddr, sync::Arc, time::Duration};

use futures_util::FutureExt;
use moka::future::Cache;
use petstore_caller::api_key::{ApiKey, KeyDigest};
use petstore_caller::client_address::ClientAddress;
use petstore_clock::{Clock, UnixMillis};
use petstore_core_client::TracedTransport;
use petstore_proto::internal::v1::ListChangesResponse;
use petstore_telemetry::{metrics::Collectors, parts::Fault};
use tokio::time::{Instant, sleep};

use super::{
    KeyError, KnownKey, LastBan, UnusableKey,
    bans::ImposedBans,
    cached_key::{CacheState, CachedKey, KeyMetrics, LastUsed},
    changes::{Changes, Stamp},
    key_service::KeyService,
    lookups::{Lookups, SingleFlight, join},
};

/// Maximum number of cached keys.
const MAX_KNOWN: u64 = 50_000;

/// Time for which a digest that belongs to no key is cached.
const UNKNOWN_FOR: Duration = Duration::from_secs(5);

/// Resolves keys, and caches them until their account changes, or until thirty seconds after they were last
/// confirmed. Clones share the cache.
///
/// Keys are only compared by their SHA-256 digest, so that response times do not reveal how much of a guess
/// was right.
#[derive(Clone)]
pub struct KeyResolver(Arc<ResolverState>);

struct ResolverState {
    core: Arc<KeyService>,
    clock: Clock,
    changes: Arc<Changes>,
    known: Cache<KeyDigest, Arc<CachedKey>>,
    /// Time until which a digest is treated as unknown.
    unknown: Cache<KeyDigest, UnixMillis>,
    single_flight: SingleFlight<Result<Arc<CachedKey>, KeyError>>,
    lookups: Arc<Lookups<Result<Arc<FoundKeys>, KeyError>>>,
    last_used: LastUsed,
    metrics: KeyMetrics,
    on_changes: Box<dyn Fn(&ListChangesResponse) + Send + Sync>,
    imposed: ImposedBans,
}

/// Answer of the core about the digests of one call. `None` stands for invalid data.
type FoundKeys = HashMap<KeyDigest, Option<Arc<CachedKey>>>;

impl KeyResolver {
    /// Returns a resolver with an empty cache, whose core must have these methods. Calls `on_changes`
    /// with each answer of the change feed, which says more than the cache reads: the name of the
    /// installation, and what the program adds. The names of its metrics begin with the prefix.
    pub fn new(
        core: TracedTransport,
        methods: &'static [&'static str],
        on_changes: impl Fn(&ListChangesResponse) + Send + Sync + 'static,
        clock: Clock,
        metrics_prefix: &str,
    ) -> Self {
        let core = Arc::new(KeyService::new(core, methods, clock.clone()));
        let changes = Arc::<Changes>::default();
        Self(Arc::new(ResolverState {
            lookups: lookups(Arc::clone(&core), Arc::clone(&changes), clock.clone()),
            core,
            clock,
            changes,
            known: Cache::new(MAX_KNOWN),
            unknown: Cache::builder().max_capacity(10_000).time_to_live(UNKNOWN_FOR).build(),
            single_flight: SingleFlight::default(),
            last_used: LastUsed::default(),
            metrics: KeyMetrics::with_prefix(metrics_prefix),
            imposed: ImposedBans::default(),
            on_changes: Box::new(on_changes),
        }))
    }

    /// Returns the key if it may be used now. If it is not cached, asks the core, once for all requests with
    /// this key, and in one call with other keys. Waits for two seconds at most for its turn, and for one
    /// second for each answer. While lookups queue, the networks of clients take turns.
    ///
    /// # Errors
    /// See [`KeyError`].
    pub async fn resolve(&self, key: &ApiKey, client: IpAddr) -> Result<Arc<KnownKey>, UnusableKey> {
        let digest = key.digest();
        let state = self.0.cached(&digest).await;
        self.0.metrics.requested(&state);
        let entry = match state {
            CacheState::Key(entry) => entry,
            CacheState::UnknownKey => return Err(KeyError::Unknown.into()),
            CacheState::Outdated | CacheState::Missing => {
                let resolver = Arc::clone(&self.0);
                join(&self.0.single_flight, digest, || resolver.look_up(digest, client.into())).await?
            }
        };
        let error = match entry.usable(self.0.core.now()) {
            // Such a client learns nothing else about the account, and its use is not the holder's.
            Ok(_) | Err(KeyError::AccountSuspended(_)) if !entry.key.allowed_addresses.allow(client) => {
                KeyError::AddressNotAllowed
            }
            Ok(key) => {
                self.0.last_used.note(&entry, self.0.clock.now());
                return Ok(Arc::clone(key));
            }
            Err(error) => error,
        };
        Err(UnusableKey { error, key: Some(Arc::clone(&entry.key)) })
    }

    /// Returns the key with this identifier, in any state and environment. Always asks the core.
    ///
    /// # Errors
    /// [`KeyError::Unknown`] or [`KeyError::CoreAway`].
    pub async fn find(&self, key_id: &str) -> Result<Arc<KnownKey>, KeyError> {
        let (asked_at, history) = (self.0.clock.now(), self.0.changes.history());
        let answer = self.0.core.find(key_id).await?;
        let found = answer.keys.into_iter().find_map(|found| found.key).ok_or(KeyError::Unknown)?;
        let stamp = Stamp { account_id: found.account_id, revision: answer.revision, history, asked_at };
        let entry = CachedKey::read(found, stamp);
        entry.map(|entry| entry.key).ok_or(KeyError::CoreAway)
    }

    /// Returns the key's last ban, as the core and this gateway know it.
    pub fn last_ban(&self, key: &KnownKey) -> Option<LastBan> {
        self.0.imposed.last_ban(key)
    }

    /// Bans a key that had too many strikes at `from`, and reports the ban to the core. Returns `false` if
    /// that time is already settled, by a ban or its lifting.
    pub fn ban(&self, key: &KnownKey, from: UnixMillis) -> bool {
        self.0.imposed.impose(key, from, self.0.clock.now())
    }

    /// Asks the core once for changed accounts and the name of the installation, for a core in the same
    /// process.
    pub async fn poll_once(&self) {
        self.0.poll_changes().await;
    }

    /// Polls the core once a second for changed accounts, reports bans at once, and last uses every ten
    /// seconds, until `shutdown`. Without it, keys are trusted for thirty seconds even if they change.
    pub async fn keep_current(self, shutdown: impl Future<Output = ()>) {
        let follow = async {
            let mut reported = Instant::now();
            loop {
                self.0.poll_changes().await;
                if reported.elapsed() >= Duration::from_secs(10) {
                    self.0.report_uses().await;
                    reported = Instant::now();
                }
                // Sooner while the core does not answer, so that its return is noticed soon.
                sleep(Duration::from_millis(if self.core_is_up() { 1_000 } else { 250 })).await;
            }
        };
        let report_bans = async {
            loop {
                self.0.imposed.added.notified().await;
                while self.0.report_bans().await.is_err() {
                    sleep(Duration::from_secs(1)).await;
                }
            }
        };
        tokio::select! {
            () = shutdown => {}
            () = follow => {}
            () = report_bans => {}
        }
        let _ = self.0.report_bans().await; // bans that cannot be reported now are lost
        self.0.report_uses().await;
    }

    /// Returns the metrics of the cache and of lookups.
    pub fn metrics(&self) -> Collectors {
        self.0.metrics.collectors()
    }

    /// Returns the time by the core's clock, as far as the core has told it.
    pub fn core_now(&self) -> UnixMillis {
        self.0.core.now()
    }

    /// Returns the fault of the core, as this gateway sees it.
    pub fn core_fault(&self) -> Option<Fault> {
        self.0.core.fault()
    }

    /// Returns `true` if the core listed changed accounts when it was last asked.
    pub fn core_is_up(&self) -> bool {
        self.0.core.is_up()
    }
}

impl ResolverState {
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
        let unknown_from = match self.cached(&digest).await {
            CacheState::Key(entry) => return Ok(entry),
            CacheState::UnknownKey => return Err(KeyError::Unknown),
            CacheState::Outdated => None,
            CacheState::Missing => Some(from),
        };
        let found = self.call(digest, unknown_from).await;
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

    /// Returns the core's answer if it is valid. An answer that is older than a change already reported must
    /// not be cached.
    async fn call(
        &self,
        digest: KeyDigest,
        unknown_from: Option<ClientAddress>,
    ) -> Result<Arc<CachedKey>, KeyError> {
        for _ in 0..3 {
            // Again if the core answers with data that it has itself declared stale.
            let found = self.lookups.find(digest, unknown_from).await??;
            let Some(entry) = found.get(&digest).ok_or(KeyError::Unknown)? else {
                tracing::error!(
                    "the core's answer about an API key is invalid: the core may be a newer version"
                );
                return Err(KeyError::CoreAway);
            };
            if self.changes.admit(entry.stamp) {
                return Ok(Arc::clone(entry));
            }
        }
        tracing::debug!("the core's answers about an API key are older than the changes that it listed");
        Err(KeyError::CoreAway)
    }

    async fn poll_changes(&self) {
        let (asked_at, after) = (self.clock.now(), self.changes.revision());
        if let Ok(answer) = self.core.list_changes(after).await {
            (self.on_changes)(&answer);
            self.changes.learn(&answer, after, asked_at);
            // What changed before this gateway's first question, or before a restore, was not awaited.
            if after > 0 && !answer.truncated {
                self.metrics.changed(&answer.changes, self.core.now());
            }
        }
    }

    /// Reports new bans, until the core does not answer. Its answer counts as a change: the key is looked up
    /// again, with the ban that is then in force.
    async fn report_bans(&self) -> Result<(), KeyError> {
        for ban in self.imposed.unreported() {
            let (asked_at, history) = (self.clock.now(), self.changes.history());
            if let Some(answer) = self.core.report_ban(&ban).await? {
                let (account_id, revision) = (ban.account_id, answer.revision);
                self.changes.learn_early(Stamp { account_id, revision, history, asked_at });
            }
            self.imposed.answered(&ban);
        }
        Ok(())
    }

    async fn report_uses(&self) {
        self.core.report(&self.last_used.take()).await;
    }
}

/// Returns lookups that ask the core about many keys at once.
fn lookups(
    core: Arc<KeyService>,
    changes: Arc<Changes>,
    clock: Clock,
) -> Arc<Lookups<Result<Arc<FoundKeys>, KeyError>>> {
    Lookups::new(move |digests| {
        let (core, changes, clock) = (Arc::clone(&core), Arc::clone(&changes), clock.clone());
        let call = async move {
            let (asked_at, history) = (clock.now(), changes.history());
            let answer = core.resolve(&digests).await?;
            let revision = answer.revision;
            // Entries without a digest or a key are skipped.
            let keys = answer.keys.into_iter().filter_map(|found| {
                let (digest, key) = (KeyDigest(found.digest.try_into().ok()?), found.key?);
                let stamp = Stamp { account_id: key.account_id, revision, history, asked_at };
                Some((digest, CachedKey::read(key, stamp).map(Arc::new)))
            });
            Ok(Arc::new(keys.collect::<FoundKeys>()))
        };
        call.boxed()
    })
}

#[cfg(test)]
mod tests;
