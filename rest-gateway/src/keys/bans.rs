//! Bans of a limiter that keeps them in this process: the core remembers them, for other gateways and for the time
//! after a restart, and tells of those that others imposed or an operator added or lifted.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use petstore_clock::UnixMillis;
use petstore_proto::internal::v1 as internal;
use tokio::sync::Notify;

use super::changes::Stamp;
use crate::limit::{Ban, Decision, Outcome, Quota, RateLimiter, Subject};

/// A ban from further in the future than this is taken as imposed now: the core's clock is ahead of this one, and
/// the limiter would not believe it.
const SKEW: Duration = Duration::from_secs(1);

/// A ban matters for so long after its end.
const MEMORY: Duration = Duration::from_hours(24);

/// Forgetting what is over looks at every note, so it waits until there are so many, or twice as many as it left.
const FIRST_SWEEP: usize = 64;

/// Keeps limiter and core alike. What this process imposed holds here at once, whether the core can be told or not.
#[derive(Debug)]
pub(super) struct Bans {
    /// `None` if the limiter shares its bans with every gateway by itself.
    limiter: Option<Arc<dyn RateLimiter>>,
    notes: Mutex<Notes>,
    imposed: Notify,
}

#[derive(Debug, Default)]
struct Notes {
    by_key: HashMap<Arc<str>, Note>,
    sweep_at: usize,
}

/// What is known of a key's last ban.
#[derive(Clone, Copy, Debug)]
struct Note {
    account_id: i64,
    ban: Option<Ban>,
    source: Source,
    forget_at: UnixMillis,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// Imposed here, and not known to be in the core yet.
    Unreported,
    /// As the core told; what it told before does not count any more.
    Core { history: u64, revision: i64 },
}

/// A ban that the core is to be told of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Report {
    pub(super) key_id: Arc<str>,
    pub(super) account_id: i64,
    pub(super) ban: Ban,
}

impl Bans {
    pub(super) fn new(limiter: Arc<dyn RateLimiter>) -> Self {
        let limiter = Some(limiter).filter(|limiter| !limiter.shares_bans());
        Self { limiter, notes: Mutex::default(), imposed: Notify::new() }
    }

    /// Takes note of the ban that refused a request, if it is a new one.
    pub(super) async fn refused(&self, subject: &Subject, quota: Quota, decision: &Decision) {
        let (Some(limiter), Outcome::Banned) = (&self.limiter, decision.outcome) else { return };
        let Subject::Key { account_id, key_id } = subject else { return };
        let known = self.lock().by_key.get(key_id).and_then(|note| note.ban);
        if known.map(|ban| ban.until) == decision.banned_until {
            return;
        }
        let Ok(standing) = limiter.inspect(subject, quota).await else { return };
        if let Some(ban) = standing.ban() {
            tracing::warn!(account.id = account_id, key.id = %key_id, until = %ban.until, "banned a key that ignores 429");
            self.lock().put(key_id, Note::new(*account_id, Some(ban), Source::Unreported), decision.now);
            self.imposed.notify_one();
        }
    }

    /// Makes the limiter believe what the core told of a key, unless this process knows better.
    pub(super) async fn told(&self, key_id: &Arc<str>, ban: Option<Ban>, stamp: Stamp, now: UnixMillis) {
        let Some(limiter) = &self.limiter else { return };
        let ban = ban.map(|ban| if ban.from > now.plus(SKEW) { Ban { from: now, ..ban } } else { ban });
        {
            let mut notes = self.lock();
            let known = notes.by_key.get(key_id).copied();
            if known.is_some_and(|note| note.outweighs(stamp)) {
                return;
            }
            if known.is_some() || ban.is_some() {
                let source = Source::Core { history: stamp.history, revision: stamp.revision };
                let forget_at = known.map(|note| note.forget_at).unwrap_or_default();
                let note = Note::new(stamp.account_id, ban, source);
                notes.put(key_id, Note { forget_at: note.forget_at.max(forget_at), ..note }, now);
            }
        }
        let subject = Subject::Key { account_id: stamp.account_id, key_id: Arc::clone(key_id) };
        if let Err(unavailable) = limiter.set_ban(&subject, ban).await {
            tracing::warn!(key.id = %key_id, cause = %unavailable, "could not pass on a ban");
        }
    }

    /// The core's answer to a report.
    pub(super) async fn answered(&self, report: &Report, ban: Option<Ban>, stamp: Stamp, now: UnixMillis) {
        {
            let mut notes = self.lock();
            let Some(note) = notes.by_key.get_mut(&report.key_id) else { return };
            if note.ban != Some(report.ban) {
                return; // another ban has been imposed meanwhile, and is to be reported in its turn
            }
            note.source = Source::Core { history: stamp.history, revision: stamp.revision };
        }
        self.told(&report.key_id, ban, stamp, now).await;
    }

    /// The bans that the core is to be told of.
    pub(super) fn unreported(&self) -> Vec<Report> {
        let notes = self.lock();
        let due = notes.by_key.iter().filter(|(_, note)| note.source == Source::Unreported);
        due.filter_map(|(key_id, note)| {
            Some(Report { key_id: Arc::clone(key_id), account_id: note.account_id, ban: note.ban? })
        })
        .collect()
    }

    /// Waits until a ban has been imposed since this was last asked.
    pub(super) async fn imposed(&self) {
        self.imposed.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner) // never held over an await
    }
}

impl Notes {
    fn put(&mut self, key_id: &Arc<str>, note: Note, now: UnixMillis) {
        if self.by_key.len() >= self.sweep_at.max(FIRST_SWEEP) {
            self.by_key.retain(|_, note| now < note.forget_at);
            self.sweep_at = self.by_key.len().saturating_mul(2);
        }
        self.by_key.insert(Arc::clone(key_id), note);
    }
}

impl Note {
    fn new(account_id: i64, ban: Option<Ban>, source: Source) -> Self {
        let forget_at = ban.map(|ban| ban.until.plus(MEMORY)).unwrap_or_default();
        Self { account_id, ban, source, forget_at }
    }

    /// Whether the note says more than an answer of the core.
    fn outweighs(&self, answer: Stamp) -> bool {
        match self.source {
            Source::Unreported => true,
            Source::Core { history, revision } => history == answer.history && revision > answer.revision,
        }
    }
}

/// The core's words for a ban.
pub(super) fn ban_to_core(ban: Ban) -> internal::Ban {
    let millis = |moment: UnixMillis| i64::try_from(moment.0).unwrap_or(i64::MAX);
    internal::Ban { imposed_at_ms: millis(ban.from), ends_at_ms: millis(ban.until) }
}

/// A ban in the core's words.
pub(super) fn ban_from_core(ban: internal::Ban) -> Option<Ban> {
    let moment = |millis| u64::try_from(millis).ok().map(UnixMillis);
    let ban = Ban { from: moment(ban.imposed_at_ms)?, until: moment(ban.ends_at_ms)? };
    (ban.from < ban.until).then_some(ban)
}

#[cfg(test)]
mod tests;
