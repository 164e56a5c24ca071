use petstore_caller::api_key::Environment;
use petstore_clock::{Clock, ManualClock};
use petstore_test_servers::Home;

use super::*;
use crate::accounts::{Plan, store::test_support::new_accounts};

const START: UnixMillis = UnixMillis(1_800_000_000_000);
const MINUTE: Duration = Duration::from_mins(1);

struct Shop {
    accounts: Accounts,
    clock: Clock,
    hand: ManualClock,
    key: KeyId,
    _home: Home,
}

impl Shop {
    async fn open() -> Self {
        let (accounts, home) = new_accounts().await;
        let (clock, hand) = Clock::manual(START);
        let name = AccountName::parse("acme").unwrap();
        accounts.create_account(&name, Plan::Free, clock.now()).await.unwrap();
        let key = new_key(&accounts, &clock, &name).await;
        Self { accounts, clock, hand, key, _home: home }
    }

    async fn another_key(&self) -> KeyId {
        new_key(&self.accounts, &self.clock, &AccountName::parse("acme").unwrap()).await
    }

    async fn add(&self, length: Duration, reason: Option<&str>) -> Ban {
        let reason = reason.and_then(|reason| Remark::reason(reason).unwrap());
        self.accounts.add_ban(self.key, length, reason, self.clock.now()).await.unwrap()
    }

    async fn listed(&self) -> Vec<Ban> {
        let (bans, _) = self.accounts.list_bans(self.clock.now(), None, None, None).await.unwrap();
        bans.into_iter().map(|(.., ban)| ban).collect()
    }

    async fn lift(&self) {
        self.accounts.lift_ban(self.key, self.clock.now()).await.unwrap();
    }

    /// Reports a ban, and returns the stored one.
    async fn report(&self, from: UnixMillis, length: Duration) -> Option<Ban> {
        let ban = Ban::new(from, from.plus(length), BanOrigin::Limiter).unwrap();
        let answer = self.accounts.report_ban(&self.key.to_string(), ban, self.clock.now()).await.unwrap();
        answer.last_ban.map(|ban| {
            let origin = match ban.origin {
                1 => BanOrigin::Limiter,
                _ => BanOrigin::Operator(Remark::reason(&ban.reason).unwrap()),
            };
            Ban {
                from: UnixMillis::stored(ban.imposed_at_ms),
                until: UnixMillis::stored(ban.ends_at_ms),
                origin,
            }
        })
    }

    async fn revision(&self) -> i64 {
        self.accounts.changes_after(0, 10).await.unwrap().revision
    }
}

async fn new_key(accounts: &Accounts, clock: &Clock, account: &AccountName) -> KeyId {
    let issued = accounts.create_key(account, None, Environment::Production, None, clock.now()).await;
    issued.unwrap().record.id
}

#[tokio::test]
async fn a_ban_is_listed_with_key_and_account_until_its_end() {
    let shop = Shop::open().await;
    let ban = shop.add(MINUTE, None).await;
    let (listed, total) = shop.accounts.list_bans(shop.clock.now(), None, None, None).await.unwrap();
    assert_eq!((listed, total), (vec![(shop.key, AccountName::parse("acme").unwrap(), ban)], Some(1)));
    shop.hand.advance(MINUTE);
    assert_eq!(shop.listed().await, []);
}

#[tokio::test]
async fn a_repeated_report_changes_nothing() {
    let shop = Shop::open().await;
    let before = shop.revision().await;
    let ban = shop.report(START, MINUTE).await.unwrap();
    assert_eq!((shop.report(START, MINUTE).await, shop.listed().await), (Some(ban.clone()), vec![ban]));
    assert_eq!(shop.revision().await, before + 1);
    let longer = shop.report(START, 2 * MINUTE).await.unwrap();
    assert_eq!((shop.report(START, MINUTE).await, shop.revision().await), (Some(longer), before + 2));
}

#[tokio::test]
async fn a_ban_reported_after_its_lifting_stays_lifted() {
    let shop = Shop::open().await;
    shop.report(START, MINUTE).await.unwrap();
    shop.hand.advance(Duration::from_secs(1));
    shop.lift().await;
    assert_eq!((shop.report(START, MINUTE).await, shop.listed().await), (None, vec![]));
    shop.hand.advance(Duration::from_secs(1));
    assert!(shop.report(shop.clock.now(), MINUTE).await.is_some(), "a new ban is not that one");
}

#[tokio::test]
async fn an_operators_change_overrides_bans_from_a_clock_that_is_ahead() {
    let shop = Shop::open().await;
    let ahead = START.plus(Duration::from_secs(30));
    shop.report(ahead, MINUTE).await.unwrap();
    shop.lift().await;
    assert_eq!((shop.report(ahead, MINUTE).await, shop.listed().await), (None, vec![]));

    let later = ahead.plus(Duration::from_millis(1));
    shop.report(later, 2 * MINUTE).await.unwrap();
    let ban = shop.add(MINUTE, Some("no invoice was paid")).await;
    assert_eq!((ban.from, ban.until), (later, later.plus(MINUTE)));
    assert_eq!(shop.listed().await, [ban]);
}

#[tokio::test]
async fn a_report_does_not_shorten_an_operators_ban_nor_undo_a_shorter_one() {
    let shop = Shop::open().await;
    shop.hand.advance(MINUTE);
    let ban = shop.add(2 * MINUTE, None).await;
    let (before, after) = (START, shop.clock.now().plus(Duration::from_secs(3)));
    assert_eq!(shop.report(before, 60 * MINUTE).await.as_ref(), Some(&ban), "it was replaced");
    assert_eq!(shop.report(after, MINUTE).await.as_ref(), Some(&ban), "it ends sooner");
    assert_eq!(shop.listed().await, [ban]);
}

#[tokio::test]
async fn a_lifting_is_remembered_for_longer_than_any_ban_that_it_lifted() {
    let shop = Shop::open().await;
    let imposed = shop.clock.now();
    shop.add(Duration::from_hours(24 * 366), None).await;
    shop.lift().await;
    shop.hand.advance(Duration::from_hours(24 * 365));
    let other = shop.another_key().await;
    let ban = Ban::new(shop.clock.now(), shop.clock.now().plus(MINUTE), BanOrigin::Limiter).unwrap();
    // This deletes expired notes.
    shop.accounts.report_ban(&other.to_string(), ban, shop.clock.now()).await.unwrap();
    assert_eq!(shop.report(imposed, Duration::from_hours(24 * 366)).await, None);
}

#[tokio::test]
async fn a_ban_of_an_unknown_key_is_refused_and_the_report_of_one_forgotten() {
    let shop = Shop::open().await;
    let unknown = KeyId::generate(START);
    let refused = shop.accounts.add_ban(unknown, MINUTE, None, START).await.unwrap_err();
    assert!(matches!(refused, PetStoreError::KeyNotFound(id) if id == unknown.to_string()));
    let ban = Ban::new(START, START.plus(MINUTE), BanOrigin::Limiter).unwrap();
    let before = shop.revision().await;
    let answer = shop.accounts.report_ban("nobody", ban, START).await.unwrap();
    assert_eq!(answer, ReportBanResponse { revision: before, ..ReportBanResponse::default() });
}
