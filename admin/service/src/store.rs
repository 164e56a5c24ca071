//! Operators and their changes, in the database of the core.

use std::fmt;

use futures_util::future::BoxFuture;
use petstore_clock::UnixMillis;
use petstore_core::store::Store;
use petstore_database::{Database, Session};
use sea_orm::DbErr;

use crate::{
    domain::{Actor, Audited, Change},
    error::{AdminError, Result},
};

mod audit;
mod changes;
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

    /// Returns the result of an actor's change, in an exclusive transaction. The transaction checks the
    /// actor's token again, because another operator may have revoked it meanwhile.
    ///
    /// # Errors
    ///
    /// [`AdminError::InvalidOperatorToken`], or that of the change.
    async fn change<T, F>(&self, actor: &Actor, now: UnixMillis, change: F) -> Result<T>
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
struct ActorChange<'c> {
    session: &'c Session,
    actor: Actor,
    now: UnixMillis,
}

impl ActorChange<'_> {
    /// Records the creation of something, or its change from `before`.
    async fn record<T: Audited + Sync>(
        &self,
        action: &'static str,
        before: Option<&T>,
        after: &T,
    ) -> Result<(), DbErr> {
        let subject = before.unwrap_or(after).subject();
        let change = Change { action, subject, before: before.map(T::json), after: Some(after.json()) };
        audit::record(self.session, &self.actor, self.now, change).await
    }
}

#[cfg(test)]
mod query_plan_tests;
