//! Changes by operators whose token was revoked after the call had checked it.

use petstore_core::accounts::NewExpiry;

use super::*;
use crate::AdminError;

/// Makes a change, by the door of all changes of accounts and keys, and changes of operators. Each must fail
/// as if the actor were unknown.
async fn changes_nothing(shop: &Shop, actor: &Actor) {
    let store = &shop.store;
    let [bea, eve] = ["bea", "eve"].map(|name| OperatorName::parse(name).unwrap());
    let answers = [
        store.change(actor, START, |_| Box::pin(async { Ok(()) })).await,
        store.create_operator(actor, &eve, Role::Admin, None, START).await.map(drop),
        store.rotate_operator(actor, &bea, NewExpiry::SameLifetime, START).await.map(drop),
        store.revoke_operator(actor, &bea, true, START).await.map(drop),
    ];
    for answer in answers {
        assert!(matches!(answer, Err(AdminError::InvalidOperatorToken)), "{answer:?}");
    }
}

#[tokio::test]
async fn a_change_by_an_operator_who_was_revoked_since_the_token_was_checked_is_refused() {
    let shop = Shop::open().await;
    let store = &shop.store;
    let [ann, bea] = ["ann", "bea"].map(|name| OperatorName::parse(name).unwrap());
    let (_, token) = store.create_operator(&Actor::LOCAL, &ann, Role::Admin, None, START).await.unwrap();
    store.create_operator(&Actor::LOCAL, &bea, Role::Admin, None, START).await.unwrap();
    let actor = |token: &OperatorToken| Actor {
        operator: ann.clone(),
        token: Some(token.clone()),
        client_address: None,
        certificate: None,
    };
    let of_token = actor(&token);
    let session = store.open_session(&of_token, &token, START).await.unwrap();
    assert!(store.authenticate_operator(&token, START).await.unwrap().is_some());

    store.end_session(&of_token, session.digest(), START).await.unwrap();
    changes_nothing(&shop, &actor(&session)).await;
    let (_, new_token) =
        store.rotate_operator(&of_token, &ann, NewExpiry::SameLifetime, START).await.unwrap();
    changes_nothing(&shop, &of_token).await;
    let of_new_token = actor(&new_token);
    store.revoke_operator(&of_new_token, &ann, true, START).await.unwrap(); // itself
    changes_nothing(&shop, &of_new_token).await;
}

#[tokio::test]
async fn a_token_that_was_replaced_or_revoked_since_it_was_checked_opens_no_session() {
    let shop = Shop::open().await;
    let store = &shop.store;
    let name = OperatorName::parse("ann").unwrap();
    let (_, old) = store.create_operator(&Actor::LOCAL, &name, Role::Admin, None, START).await.unwrap();
    let actor = Actor { operator: name.clone(), ..Actor::LOCAL };
    assert!(store.authenticate_operator(&old, START).await.unwrap().is_some());
    let (_, new) = store.rotate_operator(&Actor::LOCAL, &name, NewExpiry::SameLifetime, START).await.unwrap();
    let opened = store.open_session(&actor, &old, START).await;
    assert!(matches!(opened, Err(AdminError::InvalidOperatorToken)), "{opened:?}");

    let session = store.open_session(&actor, &new, START).await.unwrap();
    let opened = store.open_session(&actor, &session, START).await;
    assert!(matches!(opened, Err(AdminError::InvalidOperatorToken)), "{opened:?}");
    store.revoke_operator(&Actor::LOCAL, &name, true, START).await.unwrap();
    let opened = store.open_session(&actor, &new, START).await;
    assert!(matches!(opened, Err(AdminError::InvalidOperatorToken)), "{opened:?}");
    assert!(store.authenticate_operator(&session, START).await.unwrap().is_none());
}
