//! Permits of calls in flight. Reads and writes have separate permits, and accounts share them fairly: one
//! account's waiting writes delay neither the reads nor the writes of others.

use std::{
    collections::HashMap,
    future::pending,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::oneshot;

use crate::fair_queue::FairQueue;

/// Maximum number of calls of one kind in flight; more wait. Calls of both kinds fit onto one connection to a
/// core, even if each is in a separate batch.
pub(super) const MAX_IN_FLIGHT: usize = 128;

/// Maximum number of these that one account may hold, so that some permits are left for others.
pub(super) const MAX_OF_ACCOUNT: usize = 96;

/// Permits of one kind of call.
#[derive(Debug, Default)]
pub(super) struct Permits(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    in_flight: usize,
    by_account: HashMap<i64, usize>,
    waiting: FairQueue<i64, Waiting>,
}

#[derive(Debug)]
struct Waiting {
    account_id: i64,
    permit: oneshot::Sender<Permit>,
}

/// The right to have one call in flight, until it is dropped.
#[derive(Debug)]
pub(super) struct Permit {
    permits: Arc<Permits>,
    account_id: i64,
}

impl Permits {
    /// Waits for a permit. Accounts take turns, and a caller that gives up leaves the queue.
    pub(super) async fn acquire(self: &Arc<Self>, account_id: i64) -> Permit {
        let granted = {
            let mut state = self.state();
            // If there is room for the account, its queue is empty.
            if state.in_flight < MAX_IN_FLIGHT && state.of_account(account_id) < MAX_OF_ACCOUNT {
                state.enter(account_id);
                return Permit { permits: Arc::clone(self), account_id };
            }
            let (permit, granted) = oneshot::channel();
            state.waiting.push(account_id, Waiting { account_id, permit });
            granted
        };
        match granted.await {
            Ok(permit) => permit,
            Err(_) => pending().await, // only a caller that has given up gets no permit
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner) // no panic leaves it inconsistent
    }
}

impl State {
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

    /// Takes the next call that still waits and for which there is room.
    fn next(&mut self) -> Option<Waiting> {
        while self.in_flight < MAX_IN_FLIGHT {
            let by_account = &self.by_account;
            let next = self.waiting.pop(|account_id| {
                by_account.get(&account_id).is_none_or(|of_account| *of_account < MAX_OF_ACCOUNT)
            })?;
            if !next.permit.is_closed() {
                self.enter(next.account_id);
                return Some(next);
            }
        }
        None
    }
}

/// Passes the permit on.
impl Drop for Permit {
    fn drop(&mut self) {
        let next = {
            let mut state = self.permits.state();
            state.leave(self.account_id);
            state.next()
        };
        if let Some(Waiting { account_id, permit }) = next {
            // An error: the caller has just given up. The permit comes back in it, and is passed on.
            let _ = permit.send(Self { permits: Arc::clone(&self.permits), account_id });
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt, future::join_all, poll};

    use super::*;

    /// Takes permits for `calls` calls of the account, all of which are free.
    fn held(permits: &Arc<Permits>, account_id: i64, calls: usize) -> Vec<Permit> {
        (0..calls).map(|_| permits.acquire(account_id).now_or_never().unwrap()).collect()
    }

    #[tokio::test]
    async fn an_account_with_a_thousand_calls_leaves_permits_to_others() {
        let permits = Arc::<Permits>::default();
        let busy = held(&permits, 1, MAX_OF_ACCOUNT);
        let mut waiting = Box::pin(join_all((0..1_000).map(|_| permits.acquire(1))));
        assert!(poll!(&mut waiting).is_pending());
        let others = held(&permits, 2, MAX_IN_FLIGHT - MAX_OF_ACCOUNT);
        assert!(permits.acquire(3).now_or_never().is_none(), "all are held");
        drop((busy, others, waiting));
        assert_eq!(held(&permits, 3, MAX_OF_ACCOUNT).len(), MAX_OF_ACCOUNT);
        let state = permits.state();
        assert_eq!((state.in_flight, state.by_account.len(), state.waiting.len()), (0, 0, 0));
    }

    #[tokio::test]
    async fn accounts_take_turns() {
        let permits = Arc::<Permits>::default();
        let mut held = [held(&permits, 1, MAX_OF_ACCOUNT), held(&permits, 2, MAX_IN_FLIGHT - MAX_OF_ACCOUNT)];
        let mut busy = Box::pin(join_all((0..1_000).map(|_| permits.acquire(1))));
        assert!(poll!(&mut busy).is_pending());
        let mut other = Box::pin(permits.acquire(3));
        assert!(poll!(&mut other).is_pending());
        held[1].pop(); // the first account is at its maximum, and is skipped
        assert!(poll!(&mut other).is_ready());
    }

    #[tokio::test]
    async fn a_call_cancelled_while_it_waits_takes_no_permit() {
        let permits = Arc::<Permits>::default();
        let mut held = held(&permits, 1, 64);
        held.extend((0..64).map(|_| permits.acquire(2).now_or_never().unwrap()));
        let mut given_up = Box::pin(permits.acquire(3));
        let mut waiting = Box::pin(permits.acquire(4));
        assert!(poll!(&mut given_up).is_pending() && poll!(&mut waiting).is_pending());
        drop(given_up);
        held.pop();
        assert!(poll!(&mut waiting).is_ready());
        assert_eq!(permits.state().in_flight, MAX_IN_FLIGHT - 1);
    }
}
