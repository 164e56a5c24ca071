//! Single flight: concurrent look-ups of one key are coalesced into one, and all get its answer.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use futures_util::future::{BoxFuture, FutureExt, Shared, WeakShared};
use petstore_api_key::KeyDigest;

/// Look-ups in flight. A look-up is driven by the tasks that wait for it, and ends when all of them are
/// dropped.
#[derive(Debug)]
pub(super) struct SingleFlight<T>(Arc<UnderWay<T>>);

#[derive(Debug)]
struct UnderWay<T> {
    flights: Mutex<ByDigest<T>>,
    last_number: AtomicU64,
}

/// Look-ups and their numbers, by digest.
type ByDigest<T> = HashMap<KeyDigest, (u64, WeakShared<BoxFuture<'static, T>>)>;

impl<T> Default for SingleFlight<T> {
    fn default() -> Self {
        Self(Arc::new(UnderWay { flights: Mutex::default(), last_number: AtomicU64::new(0) }))
    }
}

impl<T: Clone + Send + Sync + 'static> SingleFlight<T> {
    /// Joins the look-up of `digest`, or starts it. `look_up` must first check if the answer is already
    /// cached: another look-up may just have ended.
    pub(super) fn join<F>(
        &self,
        digest: KeyDigest,
        look_up: impl FnOnce() -> F,
    ) -> Shared<BoxFuture<'static, T>>
    where
        F: Future<Output = T> + Send + 'static,
    {
        let mut flights = self.0.lock();
        if let Some(flight) = flights.get(&digest).and_then(|(_, flight)| flight.upgrade()) {
            return flight;
        }
        let number = self.0.last_number.fetch_add(1, Ordering::Relaxed);
        let guard = RemoveAtEnd { under_way: Arc::clone(&self.0), digest, number };
        let look_up = look_up();
        let flight = async move {
            let _guard = guard; // dropped with the answer, or when no task waits any more
            look_up.await
        };
        let flight = flight.boxed().shared();
        if let Some(weak) = flight.downgrade() {
            flights.insert(digest, (number, weak));
        }
        flight
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.0.lock().len()
    }
}

impl<T> UnderWay<T> {
    fn lock(&self) -> MutexGuard<'_, ByDigest<T>> {
        self.flights.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes a look-up when it ends, however it ends.
struct RemoveAtEnd<T> {
    under_way: Arc<UnderWay<T>>,
    digest: KeyDigest,
    number: u64,
}

impl<T> Drop for RemoveAtEnd<T> {
    fn drop(&mut self) {
        let mut flights = self.under_way.lock();
        // Another look-up may have started since the last task that waited for this one was dropped.
        if flights.get(&self.digest).is_some_and(|(number, _)| *number == self.number) {
            flights.remove(&self.digest);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future;

    use futures_util::poll;

    use super::*;

    const DIGEST: KeyDigest = KeyDigest([7; 32]);

    #[tokio::test]
    async fn callers_share_a_flight_until_it_lands() {
        let flights = SingleFlight::default();
        let first = flights.join(DIGEST, || async {
            tokio::task::yield_now().await;
            1
        });
        let second = flights.join(DIGEST, || async { 2 });
        assert_eq!(tokio::join!(first.clone(), second), (1, 1));
        assert_eq!(flights.join(DIGEST, || async { 3 }).await, 3);
        assert_eq!(flights.len(), 0);
    }

    #[tokio::test]
    async fn a_flight_continues_when_its_first_caller_is_cancelled() {
        let flights = SingleFlight::default();
        let mut first = flights.join(DIGEST, || async {
            tokio::task::yield_now().await;
            1
        });
        let second = flights.join(DIGEST, || async { 2 });
        assert!(poll!(&mut first).is_pending());
        drop(first);
        assert_eq!(second.await, 1);
    }

    #[tokio::test]
    async fn a_flight_without_callers_is_cancelled_and_removed() {
        let flights = SingleFlight::default();
        let mut flight = flights.join(DIGEST, future::pending::<u8>);
        assert!(poll!(&mut flight).is_pending());
        drop(flight);
        assert_eq!(flights.len(), 0);
        assert_eq!(flights.join(DIGEST, || async { 2 }).await, 2);
    }
}
