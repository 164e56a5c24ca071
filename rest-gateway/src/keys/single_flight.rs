//! Single flight: concurrent look-ups of one key are coalesced into one, and all get its answer.

use std::{collections::HashMap, sync::Arc};

use futures_util::future::{BoxFuture, FutureExt, Shared, WeakShared};
use parking_lot::Mutex;
use petstore_api_key::KeyDigest;

/// Look-ups in flight. A look-up is driven by the tasks that wait for it, and ends when all of them are
/// dropped.
#[derive(Debug)]
pub(super) struct SingleFlight<T>(Arc<Mutex<Flights<T>>>);

#[derive(Debug)]
struct Flights<T> {
    /// Look-ups and their numbers.
    by_digest: HashMap<KeyDigest, (u64, WeakShared<BoxFuture<'static, T>>)>,
    last_number: u64,
}

impl<T> Default for SingleFlight<T> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Flights { by_digest: HashMap::new(), last_number: 0 })))
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
        if let Some(flight) = flights.by_digest.get(&digest).and_then(|(_, flight)| flight.upgrade()) {
            return flight;
        }
        flights.last_number += 1;
        let number = flights.last_number;
        let guard = RemoveAtEnd { flights: Arc::clone(&self.0), digest, number };
        let look_up = look_up();
        let flight = async move {
            let _guard = guard; // dropped with the answer, or when no task is waiting
            look_up.await
        };
        let flight = flight.boxed().shared();
        if let Some(weak) = flight.downgrade() {
            flights.by_digest.insert(digest, (number, weak));
        }
        flight
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.0.lock().by_digest.len()
    }
}

/// Removes a look-up when it ends, however it ends.
struct RemoveAtEnd<T> {
    flights: Arc<Mutex<Flights<T>>>,
    digest: KeyDigest,
    number: u64,
}

impl<T> Drop for RemoveAtEnd<T> {
    fn drop(&mut self) {
        let by_digest = &mut self.flights.lock().by_digest;
        // Another look-up may have started since the last task that waited for this one was dropped.
        if by_digest.get(&self.digest).is_some_and(|(number, _)| *number == self.number) {
            by_digest.remove(&self.digest);
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
