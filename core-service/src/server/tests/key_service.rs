use petstore_caller::api_key::Environment;
use petstore_proto::internal::v1::{
    Ban, BanOrigin, FoundKey, KeyState, KeyUse, ListChangesRequest, Plan, ReportBanRequest, ReportUseRequest,
    ResolveKeysRequest, ResolveKeysResponse,
};
use prost::Message;

use super::*;
use crate::{accounts, store::Store};

async fn resolve_all(shop: &Shop, digests: Vec<Vec<u8>>) -> Result<ResolveKeysResponse, tonic::Status> {
    let request = ResolveKeysRequest { digests, ..Default::default() };
    shop.keys().resolve_keys(request).await.map(tonic::Response::into_inner)
}

async fn suspend(store: &Store, name: &accounts::AccountName, reason: accounts::Remark) {
    let suspended = store.accounts.change_account(name, START, |it| Ok(it.suspended(Some(reason), START)));
    suspended.await.unwrap();
}

/// Creates an account with one key.
async fn first_key(store: &Store) -> accounts::IssuedKey {
    let name = accounts::AccountName::parse("first").unwrap();
    store.accounts.create_account(&name, accounts::Plan::Free, START).await.unwrap();
    store.accounts.create_key(&name, None, Environment::Production, None, START).await.unwrap()
}

#[tokio::test]
async fn a_key_resolves_to_its_present_state_and_quota() {
    let shop = Shop::open().await;
    let Core { store, clock, .. } = &shop.core;
    let name = accounts::AccountName::parse("acme").unwrap();
    store.accounts.create_account(&name, accounts::Plan::Pro, START).await.unwrap();
    let expiry = START.plus(Duration::from_mins(1));
    let issued = store.accounts.create_key(&name, None, Environment::Staging, Some(expiry), START);
    let issued = issued.await.unwrap();
    let digest = issued.key.digest().0.to_vec();
    let resolve = async || {
        let (key, revision) = shop.resolve(&digest).await;
        (key.unwrap(), revision)
    };

    let (key, revision) = resolve().await;
    assert_eq!((key.key_id.as_str(), key.account_id), (issued.record.id.to_string().as_str(), 1));
    assert_eq!((key.plan(), key.per_minute, key.per_day), (Plan::Pro, 300, 10_000));
    assert_eq!((key.state(), key.expires_at_ms), (KeyState::Active, Some(1_800_000_060_000)));
    let all = ListChangesRequest { after_revision: 0 };
    assert_eq!(shop.keys().list_changes(all).await.unwrap().into_inner().revision, revision);
    shop.hand.advance(Duration::from_mins(1));
    assert_eq!(resolve().await.0.state(), KeyState::Expired);
    store.accounts.revoke_key(issued.record.id, clock.now()).await.unwrap();
    let (key, newer) = resolve().await;
    assert_eq!((key.state(), newer > revision), (KeyState::Revoked, true));

    let changes = ListChangesRequest { after_revision: revision };
    let changes = shop.keys().list_changes(changes).await.unwrap().into_inner();
    assert_eq!((changes.revision, changes.truncated), (newer, false));
    assert_eq!(changes.now_ms, Some(clock.now().as_i64()));
    let [change] = &changes.changes[..] else { panic!("{changes:?}") };
    assert_eq!((change.account_id, change.revision), (1, newer));

    assert_eq!(shop.resolve(&[0; 32]).await, (None, newer));
}

#[tokio::test]
async fn many_keys_resolve_in_one_call_as_each_alone() {
    let shop = Shop::open().await;
    let Core { store, .. } = &shop.core;
    let mut digests = Vec::new();
    for number in 0..5 {
        let name = accounts::AccountName::parse(&format!("account-{number}")).unwrap();
        store.accounts.create_account(&name, accounts::Plan::Pro, START).await.unwrap();
        let issued = store.accounts.create_key(&name, None, Environment::Staging, None, START).await.unwrap();
        digests.push(issued.key.digest().0.to_vec());
    }
    let resolve = async |digests: &[Vec<u8>]| resolve_all(&shop, digests.to_vec()).await;
    let mut alone = Vec::new();
    for digest in &digests {
        alone.push((digest.clone(), shop.resolve(digest).await.0.unwrap()));
    }
    alone.sort_by_key(|(digest, _)| digest.clone());

    let unknown = (0..=255).map(|byte| vec![byte; 32]);
    let asked: Vec<_> = digests.iter().cloned().chain(unknown).chain(digests.first().cloned()).collect();
    let answer = resolve(&asked).await.unwrap();
    let found = answer.keys.into_iter().map(|found| (found.digest, found.key.unwrap()));
    let mut found: Vec<_> = found.collect();
    found.sort_by_key(|(digest, _)| digest.clone());
    assert_eq!(found, alone);
    let nothing = resolve(&[vec![0; 32]]).await.unwrap();
    assert_eq!((nothing.keys, nothing.revision), (Vec::new(), answer.revision));

    assert!(resolve(&vec![vec![0; 32]; 1_000]).await.is_ok());
    for (digests, message) in [
        (vec![vec![0; 32]; 1_001], "digests must be 1 to 1000"),
        (Vec::new(), "digests must be 1 to 1000"),
        (vec![vec![0; 32], vec![0; 33]], "digests must be 32 bytes long"),
    ] {
        let error = resolve(&digests).await.unwrap_err();
        assert_eq!(verdict(&error), refused(Code::InvalidArgument, "INVALID_PARAMETER", message));
    }
}

/// Tests the longest texts that operators may write, in the longest characters.
#[tokio::test]
async fn the_largest_answer_about_keys_fits_into_a_message() {
    let shop = Shop::open().await;
    let Core { store, .. } = &shop.core;
    let reason = || accounts::Remark::reason(&"\u{1F415}".repeat(200)).unwrap().unwrap();
    let name = accounts::AccountName::parse("acme").unwrap();
    store.accounts.create_account(&name, accounts::Plan::Pro, START).await.unwrap();
    let mut digests = Vec::new();
    for _ in 0..3 {
        let issued = store.accounts.create_key(&name, None, Environment::Staging, None, START).await.unwrap();
        let banned =
            store.accounts.add_ban(issued.record.id, Duration::from_hours(1), Some(reason()), START).await;
        banned.unwrap();
        digests.push(issued.key.digest().0.to_vec());
    }
    suspend(store, &name, reason()).await;
    let answer = resolve_all(&shop, digests).await.unwrap();
    let key = answer.keys.iter().map(FoundKey::encoded_len).max().unwrap();
    assert!(key > 1_600, "both texts are in the answer: {key} bytes");
    // Includes tag and length of each, and larger numbers.
    let largest = (key + 10) * MAX_ENTRIES;
    assert!(largest <= MAX_KEYS_ANSWER, "{largest} bytes");
}

/// Tests an answer of more than 256 KiB, the maximum of other answers.
#[tokio::test]
async fn hundreds_of_keys_of_a_suspended_account_resolve_in_one_call() {
    let shop = Shop::open().await;
    let Core { store, .. } = &shop.core;
    let name = accounts::AccountName::parse("acme").unwrap();
    store.accounts.create_account(&name, accounts::Plan::Pro, START).await.unwrap();
    let mut digests = Vec::new();
    for _ in 0..400 {
        let issued = store.accounts.create_key(&name, None, Environment::Staging, None, START).await.unwrap();
        digests.push(issued.key.digest().0.to_vec());
    }
    let reason = accounts::Remark::reason(&"\u{5BB5}".repeat(200)).unwrap().unwrap();
    suspend(store, &name, reason).await;
    let answer = resolve_all(&shop, digests).await.unwrap();
    assert_eq!(answer.keys.len(), 400);
    assert!(answer.encoded_len() > MAX_MESSAGE);
}

#[tokio::test]
async fn a_core_lists_its_methods_for_gateways() {
    let shop = Shop::open().await;
    let methods = shop.keys().list_changes(ListChangesRequest::default()).await.unwrap().into_inner().methods;
    for method in
        ["internal.v1.BatchService/Call", "v1.PetStore/CreatePet", "internal.v1.UsageService/GetUsage"]
    {
        assert!(methods.contains(&format!("petstore.{method}")), "{methods:?}");
    }
    assert!(!methods.iter().any(|method| method.contains("ImportPets")), "{methods:?}");
}

#[tokio::test]
async fn a_core_does_not_know_the_keys_of_the_other_environment() {
    let mut shop = Shop::open().await;
    shop.core = shop.core.for_environment(Environment::Production);
    let Core { store, .. } = &shop.core;
    let name = accounts::AccountName::parse("acme").unwrap();
    store.accounts.create_account(&name, accounts::Plan::Free, START).await.unwrap();
    for (environment, known) in [(Environment::Production, true), (Environment::Staging, false)] {
        let issued = store.accounts.create_key(&name, None, environment, None, START).await.unwrap();
        let (key, _) = shop.resolve(&issued.key.digest().0).await;
        assert_eq!(key.is_some(), known, "{environment}");
    }
}

#[tokio::test]
async fn a_report_of_use_is_bounded_and_validated() {
    let shop = Shop::open().await;
    let report = async |count, last_used_at_ms| {
        let key_id = |key| format!("01890a5d-ac96-774b-bcce-{key:012}");
        let uses = (0..count).map(|key| KeyUse { key_id: key_id(key), last_used_at_ms }).collect();
        shop.keys().report_use(ReportUseRequest { uses }).await.map_err(|status| verdict(&status))
    };
    report(1_000, 0).await.unwrap();
    let refusal = |message| refused(Code::InvalidArgument, "INVALID_PARAMETER", message);
    assert_eq!(report(1_001, 0).await.unwrap_err(), refusal("uses must be at most 1000"));
    assert_eq!(
        report(1, -1).await.unwrap_err(),
        refusal("uses.last_used_at_ms must be a time between 1970 and 9999")
    );
}

#[tokio::test]
async fn a_reported_ban_is_returned_with_its_key_until_a_day_after_its_end() {
    let shop = Shop::open().await;
    let Core { store, clock, .. } = &shop.core;
    let accounts::IssuedKey { record, key } = first_key(store).await;
    let last_ban = async || {
        let (key, revision) = shop.resolve(&key.digest().0).await;
        (key.unwrap().last_ban, revision)
    };
    let ban = Ban {
        imposed_at_ms: 1_800_000_000_000,
        ends_at_ms: 1_800_000_300_000,
        origin: BanOrigin::Limiter.into(),
        reason: String::new(),
    };
    let report = ReportBanRequest { key_id: record.id.to_string(), ban: Some(ban.clone()) };
    let answer = shop.keys().report_ban(report.clone()).await.unwrap().into_inner();
    assert_eq!((answer.last_ban.clone(), answer.revision), last_ban().await);
    assert_eq!(answer.last_ban, Some(ban));
    shop.hand.advance(Duration::from_mins(5 + 24 * 60));
    assert_eq!(last_ban().await, (None, answer.revision));

    store.accounts.lift_ban(record.id, clock.now()).await.unwrap();
    let answer = shop.keys().report_ban(report.clone()).await.unwrap().into_inner();
    let lifted_at = i64::try_from(clock.now().0).ok();
    assert_eq!((answer.last_ban, answer.bans_lifted_at_ms), (None, lifted_at));

    let error = shop.keys().report_ban(ReportBanRequest { ban: None, ..report }).await.unwrap_err();
    let message = "ban must end after it begins";
    assert_eq!(verdict(&error), refused(Code::InvalidArgument, "INVALID_PARAMETER", message));
}

#[tokio::test]
async fn an_installation_is_named_by_environment_and_store() {
    let shop = Shop::open().await;
    let name = async |core: Core| {
        let mut keys = KeyServiceClient::new(BoxCloneSyncService::new(in_memory(services(&core))));
        let answer = keys.list_changes(ListChangesRequest::default()).await;
        answer.unwrap().into_inner().installation
    };
    let live = name(shop.core.clone().for_environment(Environment::Production)).await;
    assert_eq!(live, name(shop.core.clone().for_environment(Environment::Production)).await);
    assert!(live.len() == 13 && live.starts_with("live-"), "{live}");
    assert_eq!(
        live.replace("live-", "test-"),
        name(shop.core.clone().for_environment(Environment::Staging)).await
    );
}

#[tokio::test]
async fn an_operators_ban_is_returned_with_its_reason() {
    let shop = Shop::open().await;
    let Core { store, .. } = &shop.core;
    let accounts::IssuedKey { record, key } = first_key(store).await;
    let reason = accounts::Remark::reason("open invoice").unwrap().unwrap();
    store.accounts.add_ban(record.id, Duration::from_mins(1), Some(reason), START).await.unwrap();
    let ban = shop.resolve(&key.digest().0).await.0.unwrap().last_ban.unwrap();
    assert_eq!((ban.origin(), ban.reason.as_str()), (BanOrigin::Operator, "open invoice"));
}
