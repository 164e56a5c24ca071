//! How many keys may be looked up: guessing must cost the guesser, not the core.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::{Instant, sleep, timeout_at},
};

use super::Unresolved;
use crate::client_address::ClientAddress;

/// The most look-ups under way at once; as many again may renew what is known.
const IN_FLIGHT: usize = 16;

/// How long a look-up may wait for its turn.
const MAX_WAIT: Duration = Duration::from_secs(1);

/// All callers together: 200 unknown keys a second.
const EVERYONE: Rate = Rate { interval: Duration::from_millis(5), burst: 16 };

/// One address: 20 unknown keys a second, 40 at once.
const ADDRESS: Rate = Rate { interval: Duration::from_millis(50), burst: 40 };

/// The most addresses with a bucket. An address needs one for 50 ms after an unknown key, so that it takes 200,000
/// addresses a second to fill this; those beyond are held by [`EVERYONE`] alone.
const MAX_ADDRESSES: usize = 10_000;

/// How often something may happen.
#[derive(Clone, Copy, Debug)]
struct Rate {
    interval: Duration,
    burst: u32,
}

/// A token bucket, kept as the moment at which it is full again (the theoretical arrival time of GCRA).
#[derive(Clone, Copy, Debug)]
struct Bucket {
    full_at: Instant,
}

impl Bucket {
    fn full(now: Instant) -> Self {
        Self { full_at: now }
    }

    /// Takes a token and tells how long to wait for it; `None` if that is longer than [`MAX_WAIT`].
    fn take(&mut self, rate: Rate, now: Instant) -> Option<Duration> {
        let full_at = self.full_at.max(now) + rate.interval;
        let wait = full_at.duration_since(now).saturating_sub(rate.interval * rate.burst);
        (wait <= MAX_WAIT).then(|| {
            self.full_at = full_at;
            wait
        })
    }

    fn put_back(&mut self, rate: Rate) {
        self.full_at = self.full_at.checked_sub(rate.interval).unwrap_or(self.full_at);
    }
}

/// The budget of one gateway.
#[derive(Debug)]
pub(super) struct Budget {
    everyone: Mutex<Bucket>,
    addresses: Mutex<HashMap<ClientAddress, Bucket>>,
    strangers: Semaphore,
    renewals: Semaphore,
}

/// The right to one look-up.
#[derive(Debug)]
pub(super) struct Pass<'a> {
    budget: &'a Budget,
    /// Who pays for it, if it is not about a key that was known.
    payer: Option<ClientAddress>,
    _permit: SemaphorePermit<'a>,
}

impl Budget {
    pub(super) fn new() -> Self {
        Self {
            everyone: Mutex::new(Bucket::full(Instant::now())),
            addresses: Mutex::default(),
            strangers: Semaphore::new(IN_FLIGHT),
            renewals: Semaphore::new(IN_FLIGHT),
        }
    }

    /// The right to look up a key of which nothing is known. Waits for its turn.
    ///
    /// # Errors
    /// [`Unresolved::Overloaded`] when the wait would be too long.
    pub(super) async fn stranger(&self, from: ClientAddress) -> Result<Pass<'_>, Unresolved> {
        let now = Instant::now();
        let wait = self.charge_address(from, now).ok_or(Unresolved::Overloaded)?;
        sleep_if(wait).await;
        let Ok(permit) = turn(&self.strangers, now + MAX_WAIT).await else {
            self.refund_address(from);
            return Err(Unresolved::Overloaded);
        };
        // Only those with a permit draw on everyone's bucket, so that no wait here is longer than 16 intervals.
        let wait = lock(&self.everyone).take(EVERYONE, Instant::now()).ok_or(Unresolved::Overloaded)?;
        sleep_if(wait).await;
        Ok(Pass { budget: self, payer: Some(from), _permit: permit })
    }

    /// The right to look up again a key that was known: strangers cannot use these up.
    ///
    /// # Errors
    /// [`Unresolved::Overloaded`] when the wait would be too long.
    pub(super) async fn renewal(&self) -> Result<Pass<'_>, Unresolved> {
        let permit = turn(&self.renewals, Instant::now() + MAX_WAIT).await?;
        Ok(Pass { budget: self, payer: None, _permit: permit })
    }

    fn charge_address(&self, from: ClientAddress, now: Instant) -> Option<Duration> {
        let mut addresses = lock(&self.addresses);
        if addresses.len() >= MAX_ADDRESSES && !addresses.contains_key(&from) {
            addresses.retain(|_, bucket| bucket.full_at > now);
            if addresses.len() > MAX_ADDRESSES / 2 {
                addresses.clear(); // or the next look would come too soon to be cheap
            }
        }
        addresses.entry(from).or_insert_with(|| Bucket::full(now)).take(ADDRESS, now)
    }

    fn refund_address(&self, from: ClientAddress) {
        if let Some(bucket) = lock(&self.addresses).get_mut(&from) {
            bucket.put_back(ADDRESS);
        }
    }
}

impl Pass<'_> {
    /// Gives back what the look-up cost: it was no guess.
    pub(super) fn refund(self) {
        if let Some(from) = self.payer {
            self.budget.refund_address(from);
            lock(&self.budget.everyone).put_back(EVERYONE);
        }
    }
}

async fn turn(queue: &Semaphore, deadline: Instant) -> Result<SemaphorePermit<'_>, Unresolved> {
    match timeout_at(deadline, queue.acquire()).await {
        Ok(Ok(permit)) => Ok(permit),
        Ok(Err(_)) | Err(_) => Err(Unresolved::Overloaded), // it is never closed, so it was the time
    }
}

async fn sleep_if(wait: Duration) {
    if !wait.is_zero() {
        sleep(wait).await;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use futures_util::{FutureExt, poll};

    use super::*;

    fn address(number: u32) -> ClientAddress {
        IpAddr::V4(Ipv4Addr::from_bits(number)).into()
    }

    #[test]
    fn a_bucket_gives_its_burst_at_once_then_one_an_interval_and_refuses_a_wait_over_a_second() {
        let now = Instant::now();
        let mut bucket = Bucket::full(now);
        let waits: Vec<_> = (0..100).map_while(|_| bucket.take(ADDRESS, now)).collect();
        assert_eq!(waits.len(), 60, "40 at once and 20 within the second");
        assert!(waits[..40].iter().all(Duration::is_zero));
        assert_eq!((waits[40], waits[59]), (Duration::from_millis(50), Duration::from_secs(1)));
        assert_eq!(bucket.take(ADDRESS, now + Duration::from_secs(3)), Some(Duration::ZERO), "full again");
    }

    #[test]
    fn what_is_put_back_can_be_taken_again() {
        let now = Instant::now();
        let mut bucket = Bucket::full(now);
        for _ in 0..1_000 {
            assert_eq!(bucket.take(ADDRESS, now), Some(Duration::ZERO));
            bucket.put_back(ADDRESS);
        }
    }

    #[tokio::test]
    async fn an_address_over_its_budget_is_refused_and_another_is_not() {
        let budget = Budget::new();
        let later = Instant::now() + Duration::from_mins(1); // so that it is over for as long as the test lasts
        while budget.charge_address(address(1), later).is_some() {}
        assert_eq!(budget.stranger(address(1)).await.err(), Some(Unresolved::Overloaded));
        assert!(budget.stranger(address(2)).await.is_ok());
    }

    #[tokio::test]
    async fn an_address_that_used_its_burst_waits_for_its_turn() {
        let budget = Budget::new();
        for _ in 0..59 {
            budget.charge_address(address(1), Instant::now());
        }
        assert!(poll!(budget.stranger(address(1)).boxed()).is_pending());
        assert!(poll!(budget.stranger(address(2)).boxed()).is_ready());
    }

    #[tokio::test]
    async fn sixteen_look_ups_are_under_way_at_most_and_strangers_do_not_hold_up_renewals() {
        let budget = Budget::new();
        let mut passes = Vec::new();
        for number in 0..16 {
            passes.push(budget.stranger(address(number)).await.unwrap());
        }
        let mut seventeenth = budget.stranger(address(17)).boxed();
        assert!(poll!(&mut seventeenth).is_pending());
        assert!(budget.renewal().await.is_ok());
        passes.pop().unwrap().refund();
        assert!(seventeenth.await.is_ok());
    }

    #[test]
    fn a_flood_of_addresses_is_kept_within_the_bound() {
        let budget = Budget::new();
        for number in 0..100_000 {
            budget.charge_address(address(number), Instant::now());
            assert!(lock(&budget.addresses).len() <= MAX_ADDRESSES);
        }
    }
}
