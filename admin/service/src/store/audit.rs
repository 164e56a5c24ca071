//! The audit log in the database. Nothing here changes or removes an event, and the database itself refuses
//! both.

use petstore_clock::{UnixMillis, parse_timestamp};
use petstore_core::accounts::ApiKeyRecord;
use petstore_database::Session;
use petstore_proto::admin::v1::AuditEvent;
use sea_orm::{
    ActiveValue::Set, ColumnTrait, Condition, DbErr, EntityTrait, QueryFilter, QueryOrder, QuerySelect,
};

use super::{
    AdminStore,
    entity::audit_event::{self, Column},
};
use crate::{
    domain::{Actor, Change, ListAuditEvents, Subject},
    error::Result,
};

impl AdminStore {
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
}

/// Returns the expiry that a key was created with, to the second if a rotation has brought it forward.
pub(crate) async fn first_expiry(
    transaction: &Session,
    key: &ApiKeyRecord,
) -> Result<Option<UnixMillis>, DbErr> {
    let find = audit_event::Entity::find()
        .filter(Column::KeyId.eq(key.id.to_string()))
        .filter(Column::Action.eq("RotateKey"))
        .order_by_asc(Column::Id)
        .limit(1);
    let Some(rotation) = find.all(transaction).await?.pop() else { return Ok(key.expires_at) };
    let before = rotation.before.and_then(|before| serde_json::from_str::<serde_json::Value>(&before).ok());
    let expiry = before.as_ref().and_then(|before| before.get("expireTime")?.as_str());
    Ok(expiry.and_then(parse_timestamp).and_then(UnixMillis::from_timestamp))
}

fn client_address(actor: &Actor) -> String {
    actor.client_address.map(|address| address.to_string()).unwrap_or_default()
}

/// Records a change in the transaction that makes it.
pub(super) async fn record(
    transaction: &Session,
    actor: &Actor,
    now: UnixMillis,
    change: Change,
) -> Result<(), DbErr> {
    let (account, key_id, target_operator) = match change.subject {
        Subject::Account(id, name) => (Some((id, name)), None, None),
        Subject::Key(id, name, key_id) => (Some((id, name)), Some(key_id.to_string()), None),
        Subject::Operator(name) => (None, None, Some(name.to_string())),
        Subject::Service => (None, None, None),
    };
    let (account_id, account) = account.map(|(id, name)| (id.0, name.to_string())).unzip();
    let json = |value: Option<serde_json::Value>| value.map(|value| value.to_string());
    let row = audit_event::ActiveModel {
        created_at: Set(now.as_i64()),
        operator: Set(actor.operator.to_string()),
        client_address: Set(client_address(actor)),
        certificate: Set(actor.certificate.as_deref().map(str::to_owned)),
        action: Set(change.action.to_owned()),
        account_id: Set(account_id),
        account: Set(account),
        key_id: Set(key_id),
        target_operator: Set(target_operator),
        before: Set(json(change.before)),
        after: Set(json(change.after)),
        ..Default::default()
    };
    audit_event::Entity::insert(row).exec_without_returning(transaction).await.map(drop)
}
