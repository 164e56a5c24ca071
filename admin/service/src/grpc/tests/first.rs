//! The first key of a new store.

use petstore_caller::api_key::Environment;

use super::*;

#[tokio::test]
async fn a_new_store_gets_one_first_key_despite_concurrent_starts() {
    let shop = Shop::open().await;
    let mut starting = Vec::new();
    for _ in 0..4 {
        let store = AdminStore::new(&open(&shop.home).await);
        starting.push(tokio::spawn(async move {
            let key = ApiKey::generate(Environment::Staging);
            store.create_first_account(&key, START).await.unwrap().map(|record| (record, key))
        }));
    }
    let mut created = Vec::new();
    for answer in starting {
        created.extend(answer.await.unwrap());
    }
    let [(record, key)] = &created[..] else { panic!("{created:?}") };
    assert_eq!((record.account.as_str(), record.environment), ("first", Environment::Staging));
    let (resolved, _) = shop.resolve(&key.digest().0).await;
    assert_eq!(resolved.unwrap().plan, Plan::Free.number());
    let all = pb::ListAccountsRequest::default();
    assert_eq!(local(&shop).list_accounts(all).await.unwrap().into_inner().total_size, Some(1));
}

#[tokio::test]
async fn a_store_with_an_account_gets_no_first_key() {
    let shop = Shop::open().await;
    local(&shop).create_account(new_account("acme")).await.unwrap();
    let key = ApiKey::generate(Environment::Production);
    assert!(shop.store.create_first_account(&key, START).await.unwrap().is_none());
    assert_eq!(shop.resolve(&key.digest().0).await.0, None);
}
