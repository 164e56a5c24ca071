//! What an operator does with bans. These are the bans of gateways that count in their own process; where they share
//! a Redis, bans are kept there and nowhere else.

use std::time::Duration;

use petstore_clock::Clock;

use crate::{
    domain::{AccountError, Ban, BanNote, BanRecord, KeyId},
    store::Store,
};

/// The bans in force, the next to end first.
///
/// # Errors
///
/// The store's error.
pub async fn list(store: &Store, clock: &Clock) -> Result<Vec<BanRecord>, AccountError> {
    Ok(store.list_bans(clock.now()).await?)
}

/// Bans a key from now on, in the place of whatever ban it has. Its next ban is twice as long, like after any other.
///
/// # Errors
///
/// [`AccountError::Invalid`] if `length` is nothing, [`AccountError::KeyNotFound`], or the store's error.
pub async fn add(store: &Store, clock: &Clock, id: KeyId, length: Duration) -> Result<Ban, AccountError> {
    let now = clock.now();
    let ban = Ban::new(now, now.plus(length))?;
    store.set_ban(id, BanNote::Banned(ban)).await?;
    Ok(ban)
}

/// Lifts a key's ban and forgets that there was one, so that a next one is as short as a first one. Does the same for
/// bans that were imposed before but are not known here yet.
///
/// # Errors
///
/// [`AccountError::KeyNotFound`], or the store's error.
pub async fn lift(store: &Store, clock: &Clock, id: KeyId) -> Result<(), AccountError> {
    store.set_ban(id, BanNote::Lifted(clock.now())).await
}

#[cfg(test)]
mod tests {
    use petstore_api_key::Environment;
    use petstore_clock::{ClockHand, UnixMillis};

    use super::*;
    use crate::{
        accounts,
        domain::{AccountName, Plan},
        store::test_support::{Home, new_store},
    };

    const START: UnixMillis = UnixMillis(1_800_000_000_000);
    const MINUTE: Duration = Duration::from_mins(1);

    struct Shop {
        store: Store,
        clock: Clock,
        hand: ClockHand,
        key: KeyId,
        _home: Home,
    }

    impl Shop {
        async fn open() -> Self {
            let (store, home) = new_store().await;
            let (clock, hand) = Clock::manual(START);
            let name = AccountName::parse("acme").unwrap();
            accounts::create(&store, &clock, &name, Plan::Free).await.unwrap();
            let issued = accounts::keys::create(&store, &clock, &name, Environment::Production, None).await;
            Self { store, clock, hand, key: issued.unwrap().record.id, _home: home }
        }

        async fn listed(&self) -> Vec<Ban> {
            list(&self.store, &self.clock).await.unwrap().into_iter().map(|record| record.ban).collect()
        }

        async fn report(&self, from: UnixMillis, length: Duration) -> Option<Ban> {
            let ban = Ban::new(from, from.plus(length)).unwrap();
            self.store.report_ban(&self.key.to_string(), ban, self.clock.now()).await.unwrap().0
        }

        async fn revision(&self) -> i64 {
            self.store.changes_after(0, 10).await.unwrap().revision
        }
    }

    #[tokio::test]
    async fn a_ban_is_listed_with_key_and_account_until_its_end() {
        let shop = Shop::open().await;
        let ban = add(&shop.store, &shop.clock, shop.key, MINUTE).await.unwrap();
        let listed = list(&shop.store, &shop.clock).await.unwrap();
        let account = AccountName::parse("acme").unwrap();
        assert_eq!(listed, [BanRecord { key_id: shop.key, account, ban }]);
        shop.hand.advance(MINUTE);
        assert_eq!(shop.listed().await, []);
    }

    #[tokio::test]
    async fn a_report_is_kept_once_and_gateways_are_told_once() {
        let shop = Shop::open().await;
        let before = shop.revision().await;
        let ban = shop.report(START, MINUTE).await.unwrap();
        assert_eq!((shop.report(START, MINUTE).await, shop.listed().await), (Some(ban), vec![ban]));
        assert_eq!(shop.revision().await, before + 1);
        let longer = shop.report(START, 2 * MINUTE).await.unwrap();
        assert_eq!((shop.report(START, MINUTE).await, shop.revision().await), (Some(longer), before + 2));
    }

    #[tokio::test]
    async fn a_ban_that_is_reported_after_it_was_lifted_does_not_come_back() {
        let shop = Shop::open().await;
        shop.report(START, MINUTE).await.unwrap();
        shop.hand.advance(Duration::from_secs(1));
        lift(&shop.store, &shop.clock, shop.key).await.unwrap();
        assert_eq!((shop.report(START, MINUTE).await, shop.listed().await), (None, vec![]));
        shop.hand.advance(Duration::from_secs(1));
        assert!(shop.report(shop.clock.now(), MINUTE).await.is_some(), "a new ban is not that one");
    }

    #[tokio::test]
    async fn a_ban_of_an_unknown_key_is_refused_and_the_report_of_one_forgotten() {
        let shop = Shop::open().await;
        let stranger = KeyId::generate(START);
        let refused = add(&shop.store, &shop.clock, stranger, MINUTE).await.unwrap_err();
        assert!(matches!(refused, AccountError::KeyNotFound(id) if id == stranger));
        let ban = Ban::new(START, START.plus(MINUTE)).unwrap();
        let before = shop.revision().await;
        let answer = shop.store.report_ban("nobody", ban, START).await.unwrap();
        assert_eq!(answer, (None, before));
    }
}
