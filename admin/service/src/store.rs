//! Operators and their changes, in the database of the core.

use futures_util::future::BoxFuture;
use petstore_caller::api_key::ApiKey;
use petstore_clock::{UnixMillis, parse_timestamp};
use petstore_core::{
    accounts::{
        AccountName, ApiKeyRecord, KeyProperties, Plan,
        store::{accounts, keys},
    },
    store::Store,
};
use petstore_database::{Database, Session};
use petstore_proto::admin::v1::AuditEvent;
use sea_orm::{ActiveValue::Set, ColumnTrait, Condition, DbErr, EntityTrait, QueryFilter, QueryOrder};

use crate::{
    domain::{Actor, Audited, ListAuditEvents, Subject},
    error::{AdminError, Result},
};

mod entity;
mod operators;
mod reports;
mod sessions;

use entity::audit_event::{self, Column};

/// The changes that operators make to a store, each with its event in the audit log, and the operators
/// themselves. Clones share the connections.
#[derive(Clone, Debug)]
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

    /// Returns a page of events, newest first, with one more than the page has. The first page includes the
    /// total after filtering.
    pub(crate) async fn list_audit_events(
        &self,
        list: ListAuditEvents,
    ) -> Result<(Vec<AuditEvent>, Option<i64>)> {
        let account = list.account.map(|(name, id)| {
            let is_id = id.map(|id| Column::AccountId.eq(id.0));
            Condition::any().add(Column::Account.eq(name)).add_option(is_id)
        });
        let filters = Condition::all()
            .add_option(account)
            .add_option(list.operator.map(|name| Column::Operator.eq(name)))
            .add_option(list.key_id.map(|id| Column::KeyId.eq(id)))
            .add_option(list.since.map(|since| Column::CreatedAt.gte(since.as_i64())))
            .add_option(list.until.map(|until| Column::CreatedAt.lt(until.as_i64())));
        let find = audit_event::Entity::find().filter(filters);
        let (rows, total) = self.database.page(find, Column::Id, list.before, list.size.get()).await?;
        Ok((rows.into_iter().map(AuditEvent::from).collect(), total))
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
        self.record_event(action, subject, [before.map(T::json), Some(after.json())]).await
    }

    /// Records the change in other words, with the state before and after. Nothing here changes or removes an
    /// event, and the database itself refuses both.
    pub(crate) async fn record_event(
        &self,
        action: &'static str,
        subject: Subject,
        [before, after]: [Option<serde_json::Value>; 2],
    ) -> Result<(), DbErr> {
        let client_address = self.actor.client_address.map(|address| address.to_string());
        let (account, key_id, target_operator) = match subject {
            Subject::Account(id, name) => (Some((id, name)), None, None),
            Subject::Key(id, name, key_id) => (Some((id, name)), Some(key_id.to_string()), None),
            Subject::Operator(name) => (None, None, Some(name.to_string())),
            Subject::Service => (None, None, None),
        };
        let (account_id, account) = account.map(|(id, name)| (id.0, name.to_string())).unzip();
        let json = |value: Option<serde_json::Value>| value.map(|value| value.to_string());
        let row = audit_event::ActiveModel {
            created_at: Set(self.now.as_i64()),
            operator: Set(self.actor.operator.to_string()),
            client_address: Set(client_address.unwrap_or_default()),
            certificate: Set(self.actor.certificate.as_deref().map(str::to_owned)),
            action: Set(action.to_owned()),
            account_id: Set(account_id),
            account: Set(account),
            key_id: Set(key_id),
            target_operator: Set(target_operator),
            before: Set(json(before)),
            after: Set(json(after)),
            ..Default::default()
        };
        audit_event::Entity::insert(row).exec_without_returning(self.session).await.map(drop)
    }

    /// Returns the expiry that a key was created with, to the second if a rotation has brought it forward.
    pub(crate) async fn first_expiry(&self, key: &ApiKeyRecord) -> Result<Option<UnixMillis>, DbErr> {
        let find = audit_event::Entity::find()
            .filter(Column::KeyId.eq(key.id.to_string()))
            .filter(Column::Action.eq("RotateKey"))
            .order_by_asc(Column::Id);
        let Some(rotation) = find.one(self.session).await? else { return Ok(key.expires_at) };
        let before =
            rotation.before.and_then(|before| serde_json::from_str::<serde_json::Value>(&before).ok());
        let expiry = before.as_ref().and_then(|before| before.get("expireTime")?.as_str());
        Ok(expiry.and_then(parse_timestamp).and_then(UnixMillis::from_timestamp))
    }
}

#[cfg(test)]
mod query_plan_tests;
