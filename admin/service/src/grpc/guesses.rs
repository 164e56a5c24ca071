//! Checks of credentials that may be guesses, without a lookup for each, and their counts.
//!
//! A correct credential is always accepted, regardless of other calls from its address, because the caller
//! may share a proxy with the guesser. So guesses are not blocked, but cheap: a credential that was not valid
//! recently waits for a fresh list of valid credentials, which is read at most ten times a second for all
//! callers together.

use std::{
    collections::{HashMap, HashSet},
    net::IpAddr,
    sync::Arc,
    time::Duration,
};

use parking_lot::{Mutex, RwLock};
use petstore_caller::api_key::KeyDigest;
use petstore_caller::client_address::ClientAddress;
use petstore_clock::{UnixMillis, whole_secs};
use tokio::{
    sync::Semaphore,
    time::{Instant, sleep_until},
};

use crate::error::{AdminError, Result};

/// Calls in flight whose credential is not yet known to be an operator's.
const MAX_CALLS: usize = 1_024;
/// Minimum interval between two readings of the list of credentials.
const LIST_INTERVAL: Duration = Duration::from_millis(100);
/// Failed attempts of an address in a window that are answered as such. The first one opens the window.
const MAX_ATTEMPTS: u32 = 10;
/// Length of the window.
const WINDOW: Duration = Duration::from_mins(1);
/// Maximum number of addresses that are counted. With one more, all counts are reset.
const MAX_ADDRESSES: usize = 10_000;

/// Credentials that were valid recently, and the failed attempts of each address. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct Guesses(Arc<State>);

#[derive(Debug)]
struct State {
    /// Permits of calls whose credential is not yet known.
    capacity: Semaphore,
    valid: RwLock<HashSet<KeyDigest>>,
    /// Time at which the list was read. Locked while it is read again, so that all waiting calls share it.
    listed: tokio::sync::Mutex<Option<Instant>>,
    failures: Mutex<HashMap<Option<ClientAddress>, Window>>,
}

#[derive(Clone, Copy, Debug)]
struct Window {
    since: UnixMillis,
    attempts: u32,
}

/// A failed attempt that was counted.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) error: AdminError,
    /// `true` if the attempt leaves a line in the log: those of a window, and the first one beyond.
    pub(super) is_logged: bool,
}

impl Default for Guesses {
    fn default() -> Self {
        Self(Arc::new(State {
            capacity: Semaphore::new(MAX_CALLS),
            valid: RwLock::default(),
            listed: tokio::sync::Mutex::default(),
            failures: Mutex::default(),
        }))
    }
}

impl Guesses {
    /// Returns the permits of calls whose credential is not yet known to be an operator's.
    pub(super) fn capacity(&self) -> &Semaphore {
        &self.0.capacity
    }

    /// Returns `true` if the credential was valid recently, so that it is looked up without a fresh list.
    pub(super) fn knows(&self, digest: KeyDigest) -> bool {
        self.0.valid.read().contains(&digest)
    }

    /// Removes a credential that is no longer valid.
    pub(super) fn forget(&self, digest: KeyDigest) {
        self.0.valid.write().remove(&digest);
    }

    /// Returns `true` if the credential is in a list read after this call began.
    pub(super) async fn is_listed(
        &self,
        digest: KeyDigest,
        list: impl AsyncFnOnce() -> Result<HashSet<KeyDigest>>,
    ) -> Result<bool> {
        let asked = Instant::now();
        let mut listed = self.0.listed.lock().await;
        if listed.is_none_or(|listed| listed < asked) {
            if let Some(listed) = *listed {
                sleep_until(listed + LIST_INTERVAL).await;
            }
            let now = Instant::now();
            let valid = list().await?;
            *self.0.valid.write() = valid;
            *listed = Some(now);
        }
        drop(listed);
        Ok(self.knows(digest))
    }

    /// Counts a failed attempt, and returns its error.
    pub(super) fn failed(&self, address: Option<IpAddr>, now: UnixMillis) -> Failure {
        let mut failures = self.0.failures.lock();
        let network = address.map(ClientAddress::from);
        if failures.len() >= MAX_ADDRESSES && !failures.contains_key(&network) {
            failures.retain(|_, window| window.is_open(now));
            if failures.len() >= MAX_ADDRESSES {
                failures.clear();
            }
        }
        let window = failures.entry(network).or_insert(Window { since: now, attempts: 0 });
        if !window.is_open(now) {
            *window = Window { since: now, attempts: 0 };
        }
        window.attempts = window.attempts.saturating_add(1);
        let error = if window.attempts <= MAX_ATTEMPTS {
            AdminError::InvalidOperatorToken
        } else {
            let left = whole_secs(window.since.plus(WINDOW).since(now));
            AdminError::TooManyAttempts { retry_after: Duration::from_secs(left) }
        };
        Failure { error, is_logged: window.attempts <= MAX_ATTEMPTS + 1 }
    }
}

impl Window {
    fn is_open(&self, now: UnixMillis) -> bool {
        self.since <= now && now < self.since.plus(WINDOW)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use petstore_caller::api_key::OperatorToken;

    use super::*;

    #[tokio::test]
    async fn any_number_of_guesses_costs_at_most_ten_lists_a_second_and_a_new_credential_is_among_them() {
        let (guesses, lists) = (Guesses::default(), AtomicU32::new(0));
        let right = OperatorToken::generate().digest();
        let list = async || {
            lists.fetch_add(1, Ordering::Relaxed);
            Ok(HashSet::from([right]))
        };
        let begin = Instant::now();
        let judge = |digest| guesses.is_listed(digest, list);
        while begin.elapsed() < 5 * LIST_INTERVAL {
            let wrong = (0..100).map(|_| judge(OperatorToken::generate().digest()));
            let (wrong, right) = tokio::join!(futures_util::future::join_all(wrong), judge(right));
            assert!(wrong.into_iter().all(|known| !known.unwrap()) && right.unwrap());
        }
        let most = begin.elapsed().as_millis() / LIST_INTERVAL.as_millis() + 1;
        assert!(u128::from(lists.load(Ordering::Relaxed)) <= most, "{lists:?}");
        assert!(guesses.knows(right));
        guesses.forget(right);
        assert!(!guesses.knows(right));
    }

    #[test]
    fn the_eleventh_failure_in_a_minute_is_told_to_wait_and_is_the_last_in_the_log() {
        let guesses = Guesses::default();
        let begin = UnixMillis(1_795_200_000_000);
        let fail = |address: &str, after: u64| {
            let failure = guesses.failed(Some(address.parse().unwrap()), UnixMillis(begin.0 + after));
            let retry_after = match failure.error {
                AdminError::TooManyAttempts { retry_after } => Some(retry_after.as_secs()),
                _ => None,
            };
            (retry_after, failure.is_logged)
        };
        for _ in 0..10 {
            assert_eq!(fail("192.0.2.7", 0), (None, true));
        }
        assert_eq!(fail("::ffff:192.0.2.7", 500), (Some(60), true));
        assert_eq!(fail("192.0.2.7", 59_999), (Some(1), false));
        assert_eq!(fail("192.0.2.8", 59_999), (None, true));
        assert_eq!(fail("192.0.2.7", 60_000), (None, true));
        for last in 0..10 {
            assert_eq!(fail(&format!("2001:db8::{last}"), 0).0, None);
        }
        assert_eq!(fail("2001:db8::ffff:1", 0).0, Some(60));
        assert_eq!(fail("2001:db8:0:1::1", 0).0, None);
    }
}
