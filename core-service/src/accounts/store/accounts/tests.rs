use std::{collections::HashSet, time::Duration};

use petstore_caller::api_key::{ApiKey, Environment};
use petstore_clock::{Clock, ManualClock};
use petstore_proto::internal::v1::ResolvedKey;
use petstore_test_servers::Home;

use super::*;
use crate::{
    accounts::{
        ApiKeyRecord, IssuedKey, KeyId, KeyState, ListKeys, Quota,
        store::test_support::{new_accounts, open},
    },
    pages::PageSize,
};

const DAY: Duration = Duration::from_hours(24);
const START: UnixMillis = UnixMillis(1_800_000_000_000);

struct Shop {
    accounts: Accounts,
    clock: Clock,
    hand: ManualClock,
    home: Home,
}

impl Shop {
    async fn open() -> Self {
        let (accounts, home) = new_accounts().await;
        let (clock, hand) = Clock::manual(START);
        Self { accounts, clock, hand, home }
    }

    async fn account(&self, name: &str) -> Account {
        self.accounts.create_account(&named(name), Plan::Free, START).await.unwrap()
    }

    async fn key(&self, account: &str, expires_at: Option<UnixMillis>) -> IssuedKey {
        self.accounts
            .create_key(&named(account), None, Environment::Production, expires_at, self.clock.now())
            .await
            .unwrap()
    }

    async fn state(&self, key: &IssuedKey) -> KeyState {
        self.accounts.find_key(key.record.id).await.unwrap().state(self.clock.now())
    }

    /// Returns every key, newest first.
    async fn keys(&self) -> Vec<ApiKeyRecord> {
        let all = ListKeys {
            size: PageSize::MAX,
            after: None,
            account: None,
            unused_since: None,
            expiring_until: None,
            now: START,
        };
        self.accounts.list_keys(all).await.unwrap().0
    }

    /// Returns every account, newest first.
    async fn listed(&self) -> Vec<Account> {
        let size = PageSize::MAX;
        let all = ListAccounts { size, after: None, name_contains: None, plan: None, suspended: None };
        self.accounts.list_accounts(all).await.unwrap().0
    }

    async fn set_plan(&self, account: &str, plan: Plan) -> Result<Account, PetStoreError> {
        self.accounts.change_account(&named(account), START, move |it| Ok(Account { plan, ..it })).await
    }

    /// Returns the key as gateways see it, and the revision.
    async fn resolve(&self, key: &ApiKey) -> (Option<ResolvedKey>, i64) {
        let mut found = self.accounts.resolve_keys(&[key.digest()], None, self.clock.now()).await.unwrap();
        (found.keys.pop().and_then(|found| found.key), found.revision)
    }

    /// Returns the accounts that changed since a revision, and the newest revision.
    async fn changes(&self, after: i64) -> (Vec<AccountId>, i64) {
        let changes = self.accounts.changes_after(after, 1_000).await.unwrap();
        (changes.changes.iter().map(|change| AccountId(change.account_id)).collect(), changes.revision)
    }
}

fn named(name: &str) -> AccountName {
    AccountName::parse(name).unwrap()
}

#[tokio::test]
async fn a_name_is_given_once_despite_concurrent_requests() {
    let shop = Shop::open().await;
    let asking = (0..8).map(|_| {
        let accounts = shop.accounts.clone();
        tokio::spawn(async move { accounts.create_account(&named("acme"), Plan::Free, START).await })
    });
    let mut created = 0;
    for answer in asking.collect::<Vec<_>>() {
        match answer.await.unwrap() {
            Ok(_) => created += 1,
            Err(PetStoreError::AccountExists(name)) => assert_eq!(name.as_str(), "acme"),
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!((created, shop.listed().await.len()), (1, 1));
}

#[tokio::test]
async fn a_new_plan_replaces_agreed_limits() {
    let shop = Shop::open().await;
    shop.account("acme").await;
    for plan in [Plan::Enterprise(Quota { per_minute: 7, per_day: 70 }), Plan::Business] {
        assert_eq!(shop.set_plan("acme", plan).await.unwrap().plan, plan);
        assert_eq!(shop.listed().await[0].plan, plan);
    }
    let refusal = shop.set_plan("nobody", Plan::Free).await.unwrap_err();
    assert_eq!(refusal.to_string(), "there is no account nobody");
}

#[tokio::test]
async fn an_account_takes_no_name_of_another() {
    let shop = Shop::open().await;
    let [acme, _] = [shop.account("acme").await, shop.account("zoo").await];
    let rename = async |to: &str| {
        let name = named(to);
        shop.accounts.change_account(&named("acme"), START, |account| Ok(Account { name, ..account })).await
    };
    let refusal = rename("zoo").await.unwrap_err();
    assert!(matches!(&refusal, PetStoreError::AccountExists(name) if name.as_str() == "zoo"), "{refusal}");
    let renamed = rename("apex").await.unwrap();
    assert_eq!((renamed.id, renamed.name.as_str()), (acme.id, "apex"));
}

#[tokio::test]
async fn only_the_key_resolves_to_its_account() {
    let shop = Shop::open().await;
    shop.account("other").await;
    let account = shop.account("acme").await;
    let issued = shop.key("acme", Some(START.plus(DAY))).await;
    let (resolved, _) = shop.resolve(&issued.key).await;
    let resolved = resolved.unwrap();
    assert_eq!(resolved.key_id, issued.record.id.to_string());
    assert_eq!((resolved.account_id, resolved.plan), (account.id.0, Plan::Free.number()));
    assert_eq!(resolved.expires_at_ms, Some(START.plus(DAY).as_i64()));
    assert_eq!(resolved.state, KeyState::Active as i32);

    let unknown = ApiKey::generate(Environment::Production);
    let (resolved, revision) = shop.resolve(&unknown).await;
    assert_eq!((resolved, revision), (None, shop.changes(0).await.1));
}

#[tokio::test]
async fn a_list_distinguishes_keys_without_revealing_them() {
    let shop = Shop::open().await;
    shop.account("acme").await;
    shop.account("zoo").await;
    let issued = shop.key("acme", None).await;
    shop.key("zoo", None).await;

    let account = shop.accounts.find_account(&named("acme")).await.unwrap();
    let [record] = &shop.accounts.keys_of(&account).await.unwrap()[..] else { panic!() };
    assert_eq!(record, &issued.record);
    assert_eq!((record.account.as_str(), record.created_at), ("acme", START));
    assert_eq!(record.last_four, issued.key.last_four());
    assert!(!format!("{record:?}").contains(&issued.key.expose()[9..]));
    assert_eq!(shop.keys().await.len(), 2);

    let empty = shop.account("empty").await;
    assert_eq!(shop.accounts.keys_of(&empty).await.unwrap(), []);
}

#[tokio::test]
async fn a_key_needs_an_existing_account_and_a_future_expiry() {
    let shop = Shop::open().await;
    shop.account("acme").await;
    let create = async |account, expires_at| {
        shop.accounts
            .create_key(&named(account), None, Environment::Staging, expires_at, START)
            .await
            .unwrap_err()
    };
    assert_eq!(create("nobody", None).await.to_string(), "there is no account nobody");
    assert_eq!(create("acme", Some(START)).await.to_string(), "expireTime must be in the future");
}

#[tokio::test]
async fn revoking_is_idempotent() {
    let shop = Shop::open().await;
    shop.account("acme").await;
    let key = shop.key("acme", None).await;
    assert_eq!(shop.state(&key).await, KeyState::Active);
    let revoked = shop.accounts.revoke_key(key.record.id, shop.clock.now()).await.unwrap();
    let (_, revision) = shop.changes(0).await;
    shop.hand.advance(DAY);
    assert_eq!(shop.accounts.revoke_key(key.record.id, shop.clock.now()).await.unwrap(), revoked);
    assert_eq!(revoked.revoked_at, Some(START));
    assert_eq!(shop.state(&key).await, KeyState::Revoked);
    assert_eq!(shop.changes(revision).await, (vec![], revision), "nothing changed, so nobody need ask again");

    let unknown = KeyId::generate(START);
    let refusal = shop.accounts.revoke_key(unknown, shop.clock.now()).await.unwrap_err();
    assert!(matches!(refusal, PetStoreError::KeyNotFound(id) if id == unknown.to_string()));
}

#[tokio::test]
async fn a_rotated_key_works_for_the_grace_period_but_not_past_its_expiry() {
    let shop = Shop::open().await;
    shop.account("acme").await;
    let soon = START.plus(Duration::from_mins(1));
    for (expiry, end) in
        [(None, START.plus(DAY)), (Some(soon), soon), (Some(START.plus(DAY * 9)), START.plus(DAY))]
    {
        let old = shop.key("acme", expiry).await;
        let new = shop.accounts.replace_key(old.record.id, DAY, expiry, START).await.unwrap();
        assert_eq!((new.record.account.as_str(), new.record.environment), ("acme", Environment::Production));
        assert_eq!(new.record.expires_at, expiry);
        assert_eq!(new.key.environment(), Environment::Production);
        let (resolved, _) = shop.resolve(&old.key).await;
        assert_eq!(resolved.unwrap().expires_at_ms, Some(end.as_i64()));
        assert!(shop.resolve(&new.key).await.0.is_some());
    }
}

#[tokio::test]
async fn an_inactive_key_is_not_rotated() {
    let shop = Shop::open().await;
    shop.account("acme").await;
    let (revoked, expired) = (shop.key("acme", None).await, shop.key("acme", Some(START.plus(DAY))).await);
    shop.accounts.revoke_key(revoked.record.id, shop.clock.now()).await.unwrap();
    shop.hand.advance(DAY);
    for (key, state) in [(revoked, KeyState::Revoked), (expired, KeyState::Expired)] {
        let refusal =
            shop.accounts.replace_key(key.record.id, DAY, None, shop.clock.now()).await.unwrap_err();
        let state = state.to_string();
        assert!(
            matches!(&refusal, PetStoreError::KeyNotActive { state: found, .. } if *found == state),
            "{refusal}"
        );
    }
    assert_eq!(shop.keys().await.len(), 2);
}

#[tokio::test]
async fn every_change_of_plan_or_keys_is_listed_once_under_its_newest_revision() {
    let shop = Shop::open().await;
    let (acme, zoo) = (shop.account("acme").await.id, shop.account("zoo").await.id);
    let key = shop.key("acme", None).await;
    let (changed, mut revision) = shop.changes(0).await;
    assert_eq!(changed, [zoo, acme], "in the order of the revisions");

    let expect = async |account: AccountId, revision: &mut i64| {
        let (changed, newest) = shop.changes(*revision).await;
        assert_eq!(changed, [account]);
        *revision = newest;
    };
    shop.set_plan("zoo", Plan::Pro).await.unwrap();
    expect(zoo, &mut revision).await;
    shop.key("zoo", None).await;
    expect(zoo, &mut revision).await;
    shop.accounts.replace_key(key.record.id, DAY, None, shop.clock.now()).await.unwrap();
    expect(acme, &mut revision).await;
    shop.accounts.revoke_key(key.record.id, shop.clock.now()).await.unwrap();
    expect(acme, &mut revision).await;
    assert_eq!(shop.changes(revision).await, (vec![], revision));
}

#[tokio::test]
async fn a_failed_change_leaves_no_trace() {
    let shop = Shop::open().await;
    shop.account("acme").await;
    let before = shop.changes(0).await;
    shop.accounts.create_account(&named("acme"), Plan::Pro, START).await.unwrap_err();
    shop.set_plan("nobody", Plan::Pro).await.unwrap_err();
    assert_eq!(shop.changes(0).await, before);
}

#[tokio::test]
async fn too_many_changes_and_future_revisions_invalidate_everything() {
    let shop = Shop::open().await;
    for name in ["a", "b", "c"] {
        shop.account(name).await;
    }
    let truncated = async |after, limit| {
        let changes = shop.accounts.changes_after(after, limit).await.unwrap();
        (changes.changes.len(), changes.truncated)
    };
    let (_, newest) = shop.changes(0).await; // every account has a revision, one higher than the last
    assert_eq!(truncated(0, 3).await, (3, false));
    assert_eq!(truncated(0, 2).await, (2, true));
    assert_eq!(truncated(newest - 2, 2).await, (2, false));
    assert_eq!(truncated(newest - 2, 1).await, (1, true));
    assert_eq!(truncated(newest, 2).await, (0, false));
    assert_eq!(truncated(newest + 1, 2).await, (0, true), "the store was restored from a backup");
}

#[tokio::test]
async fn a_restored_store_with_as_many_changes_as_were_lost_invalidates_everything() {
    let home = Home::Folder(tempfile::tempdir().unwrap());
    let url = home.url();
    let file = url.strip_prefix("sqlite://").unwrap();
    let accounts = open(&home).await;
    let create = async |accounts: &Accounts, name: &str, now| {
        accounts.create_account(&named(name), Plan::Free, now).await.unwrap();
    };
    create(&accounts, "kept", START).await;
    accounts.database.close().await;
    let backup = std::fs::read(file).unwrap();

    let accounts = open(&home).await;
    create(&accounts, "lost", START).await;
    let seen = accounts.changes_after(0, 10).await.unwrap().revision;
    create(&accounts, "lost-unseen", START).await;
    accounts.database.close().await;

    for changes in 1..4_u64 {
        std::fs::write(file, &backup).unwrap();
        let accounts = open(&home).await;
        for change in 0..changes {
            let later = START.plus(Duration::from_secs(1 + change));
            create(&accounts, &format!("new-{change}"), later).await;
        }
        let answer = accounts.changes_after(seen, 10).await.unwrap();
        assert!(answer.truncated && answer.revision > seen, "{changes} changes: {answer:?}");
        let next = accounts.changes_after(answer.revision, 10).await.unwrap();
        assert!(!next.truncated && next.changes.is_empty(), "{next:?}");
        accounts.database.close().await;
    }
}

#[tokio::test]
async fn changes_of_one_account_after_each_other_are_no_restore() {
    let shop = Shop::open().await;
    shop.account("acme").await;
    let (_, seen) = shop.changes(0).await;
    for plan in [Plan::Pro, Plan::Free, Plan::Business] {
        shop.set_plan("acme", plan).await.unwrap();
    }
    let answer = shop.accounts.changes_after(seen, 10).await.unwrap();
    assert_eq!((answer.changes.len(), answer.truncated), (1, false));
    let other_core = shop.accounts.changes_after(seen + 1, 10).await.unwrap();
    assert!(other_core.truncated, "no core answered this revision, and no account has it");
}

#[tokio::test]
async fn the_time_of_last_use_only_moves_forward() {
    let shop = Shop::open().await;
    shop.account("acme").await;
    let key = shop.key("acme", None).await;
    let (_, revision) = shop.changes(0).await;
    for (reported, kept) in [(5, 5), (9, 9), (7, 9)] {
        let uses =
            [("no such key".to_owned(), UnixMillis(1)), (key.record.id.to_string(), UnixMillis(reported))];
        shop.accounts.record_key_use(&uses).await.unwrap();
        let listed = shop.keys().await;
        assert_eq!(listed[0].last_used_at, Some(UnixMillis(kept)));
    }
    let twice = [11, 15, 13].map(|reported| (key.record.id.to_string(), UnixMillis(reported)));
    shop.accounts.record_key_use(&twice).await.unwrap();
    let listed = shop.keys().await;
    assert_eq!(listed[0].last_used_at, Some(UnixMillis(15)), "the last of one report");
    assert_eq!(shop.changes(revision).await.1, revision, "use is no change");
}

#[tokio::test]
async fn the_key_itself_is_in_no_file() {
    let shop = Shop::open().await;
    shop.account("acme").await;
    let issued = shop.key("acme", None).await;
    let Home::Folder(folder) = &shop.home else { return }; // PostgreSQL manages its own files
    let files: HashSet<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    let secret = &issued.key.expose().as_bytes()[9..39]; // the random part
    for file in files {
        let bytes = std::fs::read(&file).unwrap();
        assert!(!bytes.windows(secret.len()).any(|window| window == secret), "{}", file.display());
    }
}

#[tokio::test]
async fn a_closed_store_is_an_outage() {
    let shop = Shop::open().await;
    shop.accounts.database.close().await;
    let error = shop.accounts.create_account(&named("acme"), Plan::Free, START).await.unwrap_err();
    assert!(matches!(error, PetStoreError::Unavailable(_)), "{error:?}");
}
