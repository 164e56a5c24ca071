//! Permits of calls in flight. Reads and writes have separate permits, and accounts share them fairly: one
//! account's waiting writes delay neither the reads nor the writes of others.
//!
//! A call that would wait too long is refused at once. The expected wait is the
//! number of turns until the call has its own, times the mean time between two permits. Otherwise an
//! overloaded core would serve only calls that have waited until shortly before their deadline.

use std::{future::pending, sync::Arc, time::Duration};

use foldhash::HashMap;
use parking_lot::Mutex;
use tokio::{sync::oneshot, time::Instant};

use super::fair_queue::FairQueue;

/// Maximum number of calls of one kind in flight; more wait. Calls of both kinds fit onto one connection to a
/// core, even if each is in a separate batch.
pub(super) const MAX_IN_FLIGHT: usize = 128;

/// Maximum number of these that one account may hold, so that some permits are left for others.
pub(super) const MAX_OF_ACCOUNT: usize = 96;

/// Expected wait for a permit from which on calls are refused. It is the time in `Retry-After`, and leaves
/// most of a call's deadline to the call.
const MAX_WAIT: Duration = Duration::from_secs(1);

/// Number of permits over which the time between two is averaged (exponentially weighted). A core answers in
/// batches, so that many permits become free at once.
const AVERAGED: u32 = 128;

/// Permits of one kind of call.
#[derive(Default)]
pub(super) struct Permits(Mutex<PermitState>);

#[derive(Default)]
struct PermitState {
    in_flight: usize,
    by_account: HashMap<i64, usize>,
    /// Calls that wait, each with its account.
    waiting: FairQueue<i64, (i64, oneshot::Sender<Permit>)>,
    /// Time at which the last waiting call got its permit, or at which the first one began to wait.
    granted_at: Option<Instant>,
    /// Mean time between two permits since calls wait, which grows from 0.
    interval: Duration,
}

/// Error of a call that would wait too long for a permit.
#[derive(Debug)]
pub(super) struct Overloaded;

/// The right to have one call in flight, until it is dropped.
pub(super) struct Permit {
    permits: Arc<Permits>,
    account_id: i64,
}

impl Permits {
    /// Returns a permit as soon as there is one. Accounts take turns, and a caller that gives up leaves the
    /// queue.
    pub(super) fn acquire(
        self: &Arc<Self>,
        account_id: i64,
    ) -> Result<impl Future<Output = Permit> + use<>, Overloaded> {
        let granted = {
            let mut state = self.0.lock();
            // If there is room for the account, its queue is empty.
            if state.in_flight < MAX_IN_FLIGHT && state.of_account(account_id) < MAX_OF_ACCOUNT {
                state.enter(account_id);
                Ok(Permit { permits: Arc::clone(self), account_id })
            } else {
                Err(state.push(account_id, Instant::now())?)
            }
        };
        Ok(async move {
            let granted = match granted {
                Ok(permit) => return permit,
                Err(granted) => granted.await,
            };
            match granted {
                Ok(permit) => permit,
                Err(_) => pending().await, // only a caller that has given up gets no permit
            }
        })
    }
}

impl PermitState {
    fn of_account(&self, account_id: i64) -> usize {
        self.by_account.get(&account_id).copied().unwrap_or_default()
    }

    fn enter(&mut self, account_id: i64) {
        self.in_flight += 1;
        *self.by_account.entry(account_id).or_default() += 1;
    }

    fn leave(&mut self, account_id: i64) {
        self.in_flight -= 1;
        if let Some(of_account) = self.by_account.get_mut(&account_id) {
            *of_account -= 1;
            if *of_account == 0 {
                self.by_account.remove(&account_id);
            }
        }
    }

    /// Queues a call, unless it would wait too long.
    fn push(&mut self, account_id: i64, now: Instant) -> Result<oneshot::Receiver<Permit>, Overloaded> {
        if self.waiting.is_empty() {
            (self.granted_at, self.interval) = (Some(now), Duration::ZERO);
        } else if self.expected_wait(account_id, now) > MAX_WAIT {
            return Err(Overloaded);
        }
        let (permit, granted) = oneshot::channel();
        self.waiting.push(account_id, (account_id, permit));
        Ok(granted)
    }

    /// Returns the time that a new call of the account would wait, or the time since the last permit if that
    /// is longer.
    fn expected_wait(&self, account_id: i64, now: Instant) -> Duration {
        let turns = u32::try_from(self.waiting.turns_until_served(account_id)).unwrap_or(u32::MAX);
        self.interval.saturating_mul(turns).max(self.since_last_permit(now))
    }

    fn since_last_permit(&self, now: Instant) -> Duration {
        self.granted_at.map_or(Duration::ZERO, |granted_at| now.saturating_duration_since(granted_at))
    }

    /// Takes the next call that still waits and for which there is room.
    fn next(&mut self, now: Instant) -> Option<(i64, oneshot::Sender<Permit>)> {
        while self.in_flight < MAX_IN_FLIGHT {
            let by_account = &self.by_account;
            let (account_id, permit) = self.waiting.pop(|account_id| {
                by_account.get(&account_id).is_none_or(|of_account| *of_account < MAX_OF_ACCOUNT)
            })?;
            if !permit.is_closed() {
                self.enter(account_id);
                self.interval = (self.interval * (AVERAGED - 1) + self.since_last_permit(now)) / AVERAGED;
                self.granted_at = Some(now);
                return Some((account_id, permit));
            }
        }
        None
    }
}

/// Passes the permit on.
impl Drop for Permit {
    fn drop(&mut self) {
        let next = {
            let mut state = self.permits.0.lock();
            state.leave(self.account_id);
            if state.waiting.is_empty() { None } else { state.next(Instant::now()) }
        };
        if let Some((account_id, permit)) = next {
            // An error: the caller has just given up. The permit comes back in it, and is passed on.
            let _ = permit.send(Self { permits: Arc::clone(&self.permits), account_id });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::iter;

    use futures_util::{FutureExt, future::join_all, poll};

    use super::*;

    /// Begins a call that is not refused.
    fn acquire(permits: &Arc<Permits>, account_id: i64) -> impl Future<Output = Permit> + use<> {
        permits.acquire(account_id).unwrap()
    }

    /// Takes permits for `calls` calls of the account, all of which are free.
    fn held(permits: &Arc<Permits>, account_id: i64, calls: usize) -> Vec<Permit> {
        (0..calls).map(|_| acquire(permits, account_id).now_or_never().unwrap()).collect()
    }

    #[tokio::test]
    async fn an_account_with_a_thousand_calls_leaves_permits_to_others() {
        let permits = Arc::<Permits>::default();
        let busy = held(&permits, 1, MAX_OF_ACCOUNT);
        let mut waiting = Box::pin(join_all((0..1_000).map(|_| acquire(&permits, 1))));
        assert!(poll!(&mut waiting).is_pending());
        let others = held(&permits, 2, MAX_IN_FLIGHT - MAX_OF_ACCOUNT);
        assert!(acquire(&permits, 3).now_or_never().is_none(), "all are held");
        drop((busy, others, waiting));
        assert_eq!(held(&permits, 3, MAX_OF_ACCOUNT).len(), MAX_OF_ACCOUNT);
        let state = permits.0.lock();
        assert_eq!((state.in_flight, state.by_account.len(), state.waiting.len()), (0, 0, 0));
    }

    #[tokio::test]
    async fn accounts_take_turns() {
        let permits = Arc::<Permits>::default();
        let mut held = [held(&permits, 1, MAX_OF_ACCOUNT), held(&permits, 2, MAX_IN_FLIGHT - MAX_OF_ACCOUNT)];
        let mut busy = Box::pin(join_all((0..1_000).map(|_| acquire(&permits, 1))));
        assert!(poll!(&mut busy).is_pending());
        let mut other = Box::pin(acquire(&permits, 3));
        assert!(poll!(&mut other).is_pending());
        held[1].pop(); // the first account is at its maximum, and is skipped
        assert!(poll!(&mut other).is_ready());
    }

    #[tokio::test]
    async fn a_free_permit_goes_to_an_account_with_calls_in_flight() {
        let permits = Arc::<Permits>::default();
        let mut held = [held(&permits, 1, MAX_OF_ACCOUNT), held(&permits, 2, MAX_IN_FLIGHT - MAX_OF_ACCOUNT)];
        let mut waiting = Box::pin(acquire(&permits, 2));
        assert!(poll!(&mut waiting).is_pending());
        held[0].pop();
        assert!(poll!(&mut waiting).is_ready());
    }

    #[tokio::test]
    async fn a_call_cancelled_while_it_waits_takes_no_permit() {
        let permits = Arc::<Permits>::default();
        let mut held = held(&permits, 1, 64);
        held.extend((0..64).map(|_| acquire(&permits, 2).now_or_never().unwrap()));
        let mut given_up = Box::pin(acquire(&permits, 3));
        let mut waiting = Box::pin(acquire(&permits, 4));
        assert!(poll!(&mut given_up).is_pending() && poll!(&mut waiting).is_pending());
        drop(given_up);
        held.pop();
        assert!(poll!(&mut waiting).is_ready());
        assert_eq!(permits.0.lock().in_flight, MAX_IN_FLIGHT - 1);
    }

    /// Returns the state of permits of which an account holds all it may.
    fn state_with_full_account(account_id: i64) -> PermitState {
        let mut state = PermitState::default();
        (0..MAX_OF_ACCOUNT).for_each(|_| state.enter(account_id));
        state
    }

    #[test]
    fn a_call_that_would_wait_for_more_than_a_second_is_refused_and_a_call_of_another_account_is_not() {
        let (mut state, mut now) = (state_with_full_account(1), Instant::now());
        let mut waiting = vec![state.push(1, now).unwrap()];
        for _ in 0..2_000 {
            waiting.push(state.push(1, now).unwrap());
            now += Duration::from_millis(10);
            state.leave(1);
            assert!(state.next(now).is_some());
        }
        waiting.extend(iter::from_fn(|| state.push(1, now).ok()).take(1_000));
        assert_eq!(state.waiting.len(), 100, "one gets a permit each 10 ms");
        waiting.push(state.push(2, now).expect("an account that has its turn next"));
        for account_id in [1, 2] {
            now += Duration::from_millis(10);
            state.leave(1);
            assert_eq!(state.next(now).unwrap().0, account_id);
        }
        waiting.push(state.push(1, now).expect("a place is free"));
        assert!(state.push(1, now).is_err());
    }

    #[test]
    fn calls_are_refused_after_a_second_without_a_permit_until_there_is_one() {
        let (mut state, begin) = (state_with_full_account(1), Instant::now());
        let _waiting = [state.push(1, begin).unwrap(), state.push(1, begin + MAX_WAIT).unwrap()];
        let late = begin + MAX_WAIT + Duration::from_millis(1);
        assert!(state.push(1, late).is_err());
        state.leave(1);
        assert!(state.next(late).is_some());
        assert!(state.push(1, late).is_ok());
    }
}
