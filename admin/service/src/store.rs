//! Operators and their changes, in the database of the core.

use std::fmt;

use futures_util::future::BoxFuture;
use petstore_caller::api_key::ApiKey;
use petstore_clock::UnixMillis;
use petstore_core::{
    accounts::{
        AccountName, ApiKeyRecord, KeyProperties, Plan,
        store::{accounts, keys},
    },
    store::Store,
};
use petstore_database::{Database, Session};
use sea_orm::DbErr;

use crate::{
    domain::{Actor, Audited, Change},
    error::{AdminError, Result},
};

pub(crate) mod audit;
mod entity;
mod operators;
mod reports;
mod sessions;

/// The changes that operators make to a store, each with its event in the audit log, and the operators
/// themselves. Clones share the connections.
#[derive(Clone)]
pub struct AdminStore {
    database: Database,
}

impl AdminStore {
    /// Returns the changes to this store.
    pub fn new(store: &Store) -> Self {
        Self { database: store.database().clone() }
    }

    /// Creates account `first` on plan Free with this one key if there is no account yet, in one transaction.
    /// If several processes start on a new store at once, one of them succeeds. The key is the caller's, so
    /// that it can be stored safely before the account exists: no crash leaves an account whose key is lost.
    ///
    /// # Errors
    ///
    /// If the database fails.
    pub async fn create_first_account(&self, key: &ApiKey, now: UnixMillis) -> Result<Option<ApiKeyRecord>> {
        let (name, key) = (AccountName::parse("first")?, key.clone());
        self.change(&Actor::LOCAL, now, move |change| {
            Box::pin(async move {
                if accounts::exist(change.session).await? {
                    return Ok(None);
                }
                let account = accounts::insert(change.session, &name, Plan::Free, now).await?;
                change.record("CreateAccount", None, &account).await?;
                let properties = KeyProperties::default();
                let key = keys::insert(change.session, account.id, name, &key, properties, now).await?;
                change.record("CreateKey", None, &key).await?;
                Ok(Some(key))
            })
        })
        .await
    }

    /// Returns the result of an actor's change, in an exclusive transaction. The transaction checks the
    /// actor's token again, because another operator may have revoked it meanwhile.
    ///
    /// # Errors
    ///
    /// [`AdminError::InvalidOperatorToken`], or that of the change.
    pub(crate) async fn change<T, F>(&self, actor: &Actor, now: UnixMillis, change: F) -> Result<T>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(ActorChange<'c>) -> BoxFuture<'c, Result<T>> + Clone + Send + 'static,
    {
        let actor = actor.clone();
        self.database
            .transaction(move |session| {
                Box::pin(async move {
                    if let Some(token) = &actor.token
                        && operators::with_token(token, now).all(session).await?.is_empty()
                    {
                        return Err(AdminError::InvalidOperatorToken);
                    }
                    change(ActorChange { session, actor, now }).await
                })
            })
            .await
    }
}

impl fmt::Debug for AdminStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdminStore").finish_non_exhaustive()
    }
}

/// A change in progress: its transaction and its author.
pub(crate) struct ActorChange<'c> {
    pub(crate) session: &'c Session,
    actor: Actor,
    pub(crate) now: UnixMillis,
}

impl ActorChange<'_> {
    /// Records the creation of something, or its change from `before`.
    pub(crate) async fn record<T: Audited + Sync>(
        &self,
        action: &'static str,
        before: Option<&T>,
        after: &T,
    ) -> Result<(), DbErr> {
        let subject = before.unwrap_or(after).subject();
        let change = Change { action, subject, before: before.map(T::json), after: Some(after.json()) };
        self.record_event(change).await
    }

    /// Records the change in other words.
    pub(crate) async fn record_event(&self, change: Change) -> Result<(), DbErr> {
        audit::record(self.session, &self.actor, self.now, change).await
    }
}

#[cfg(test)]
mod query_plan_tests;
