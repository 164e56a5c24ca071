//! Sessions of operators in the database.

use std::time::Duration;

use petstore_caller::api_key::{KeyDigest, OperatorToken};
use petstore_clock::UnixMillis;
use petstore_database::Session;
use petstore_proto::admin::v1 as pb;
use sea_orm::{
    ActiveValue::Set, ColumnTrait, Condition, DbErr, EntityTrait, QueryFilter, QueryOrder, QuerySelect,
    QueryTrait, sea_query::Expr,
};
use serde_json::json;

use super::{
    ActorChange, AdminStore,
    entity::{
        operator::{self, is_valid},
        operator_session::{self, Column},
    },
};
use crate::{
    domain::{Actor, Operator, OperatorName, Subject},
    error::{AdminError, Result},
};

impl AdminStore {
    /// Opens a session of the actor, whose token this is. A session's token cannot open another session,
    /// because sessions could then last indefinitely.
    ///
    /// # Errors
    ///
    /// [`AdminError::InvalidOperatorToken`] if the token is no longer that of an operator, or the store's
    /// error.
    pub(crate) async fn open_session(
        &self,
        actor: &Actor,
        token: &OperatorToken,
        now: UnixMillis,
    ) -> Result<OperatorToken> {
        let session = OperatorToken::generate_session();
        let (actor, digests) = (actor.clone(), [token, &session].map(|token| token.digest().0.to_vec()));
        self.database
            .transaction(move |transaction| {
                Box::pin(async move {
                    let [of_operator, of_session] = digests;
                    let find = operator::Entity::find()
                        .filter(operator::Column::Digest.eq(of_operator))
                        .filter(is_valid(now));
                    let row = find.all(transaction).await?.pop();
                    let operator_id = row.ok_or(AdminError::InvalidOperatorToken)?.id;
                    let expires_at = now.plus(Operator::SESSION_TTL);
                    let session = operator_session::ActiveModel {
                        digest: Set(of_session.clone()),
                        operator_id: Set(operator_id),
                        expires_at: Set(now.plus(Operator::SESSION_IDLE).as_i64()),
                        opened_at: Set(Some(now.as_i64())),
                        client_address: Set(actor.client_address.map(|address| address.to_string())),
                    };
                    operator_session::Entity::insert(session).exec_without_returning(transaction).await?;
                    remove_old(transaction, operator_id, of_session, now).await?;
                    let after = json!({ "expireTime": expires_at.to_string() });
                    let subject = Subject::Operator(actor.operator.clone());
                    let change = ActorChange { session: transaction, actor, now };
                    change.record_event("CreateSession", subject, [None, Some(after)]).await?;
                    Ok::<_, AdminError>(())
                })
            })
            .await?;
        Ok(session)
    }

    /// Extends a session that is used, at most once a minute. One that a core of 1.1 opened is not extended.
    pub(super) async fn extend_session(&self, digest: KeyDigest, now: UnixMillis) -> Result<()> {
        let find = operator_session::Entity::find().filter(is_session(digest));
        let Some(row) = self.database.all(find).await?.pop() else { return Ok(()) };
        let Some(opened_at) = row.opened_at.map(UnixMillis::stored) else { return Ok(()) };
        let last = opened_at.plus(Operator::SESSION_TTL);
        let expires_at = now.plus(Operator::SESSION_IDLE).min(last);
        if expires_at.since(UnixMillis::stored(row.expires_at)) >= Duration::from_mins(1) {
            let extended = operator_session::Entity::update_many()
                .col_expr(Column::ExpiresAt, Expr::value(expires_at.as_i64()))
                .filter(is_session(digest));
            self.note_use(extended).await;
        }
        Ok(())
    }

    /// Returns the open sessions with the names of their operators, those that expire last first.
    pub(crate) async fn list_sessions(&self, now: UnixMillis) -> Result<Vec<pb::Session>> {
        let find = operator_session::Entity::find()
            .filter(Column::ExpiresAt.gt(now.as_i64()))
            .order_by_desc(Column::ExpiresAt)
            .limit(1_000);
        let operators = self.database.all(operator::Entity::find().filter(is_valid(now))).await?;
        let name = |id| operators.iter().find(|operator| operator.id == id).map(|it| it.name.clone());
        let session = |row: operator_session::Model| {
            let operator = name(row.operator_id)?;
            let Ok(digest) = row.digest.try_into() else {
                tracing::warn!(
                    operator,
                    "a session in the database has an unreadable digest: it is not shown"
                );
                return None;
            };
            Some(pb::Session {
                id: KeyDigest(digest).to_hex(),
                operator,
                create_time: row.opened_at.map(|at| UnixMillis::stored(at).to_timestamp()),
                expire_time: Some(UnixMillis::stored(row.expires_at).to_timestamp()),
                client_address: row.client_address.unwrap_or_default(),
            })
        };
        Ok(self.database.all(find).await?.into_iter().filter_map(session).collect())
    }

    /// Ends the session with this digest, whosever it is, if it is still open.
    pub(crate) async fn revoke_session(
        &self,
        actor: &Actor,
        digest: KeyDigest,
        now: UnixMillis,
    ) -> Result<()> {
        self.change(actor, now, move |change| {
            Box::pin(async move {
                let whose = has_session(digest, now);
                let operator = operator::Entity::find().filter(whose).all(change.session).await?.pop();
                let end = operator_session::Entity::delete_many().filter(is_session(digest));
                end.exec(change.session).await?;
                let Some(operator) = operator else { return Ok(()) };
                let subject = Subject::Operator(OperatorName::stored(operator.name));
                Ok(change.record_event("RevokeSession", subject, [None, None]).await?)
            })
        })
        .await
    }

    /// Records that the actor changes the log filter of a process.
    pub(crate) async fn record_log_level(
        &self,
        actor: &Actor,
        filters: [String; 2],
        now: UnixMillis,
    ) -> Result<()> {
        self.change(actor, now, move |change| {
            Box::pin(async move {
                let filters = filters.map(|filter| Some(json!({ "logFilter": filter })));
                Ok(change.record_event("SetLogLevel", Subject::Service, filters).await?)
            })
        })
        .await
    }

    /// Ends the actor's session whose token has this digest, if it is still open.
    pub(crate) async fn end_session(&self, actor: &Actor, digest: KeyDigest, now: UnixMillis) -> Result<()> {
        let actor = actor.clone();
        self.database
            .transaction(move |transaction| {
                Box::pin(async move {
                    let end = operator_session::Entity::delete_many().filter(is_session(digest));
                    if end.exec(transaction).await?.rows_affected == 0 {
                        return Ok(());
                    }
                    let subject = Subject::Operator(actor.operator.clone());
                    let change = ActorChange { session: transaction, actor, now };
                    Ok(change.record_event("EndSession", subject, [None, None]).await?)
                })
            })
            .await
    }
}

/// Returns the condition that an operator has a session with this digest that has not expired.
pub(super) fn has_session(digest: KeyDigest, now: UnixMillis) -> Condition {
    let session = operator_session::Entity::find()
        .select_only()
        .column(Column::OperatorId)
        .filter(is_session(digest))
        .filter(Column::ExpiresAt.gt(now.as_i64()));
    Condition::all().add(operator::Column::Id.in_subquery(session.into_query()))
}

fn is_session(digest: KeyDigest) -> Expr {
    Column::Digest.eq(digest.0.to_vec())
}

/// Removes all sessions that have expired, and, if this operator has too many, those that expire first, but
/// not the new one.
async fn remove_old(
    transaction: &Session,
    operator_id: i64,
    new: Vec<u8>,
    now: UnixMillis,
) -> Result<(), DbErr> {
    let expired = Column::ExpiresAt.lte(now.as_i64());
    operator_session::Entity::delete_many().filter(expired).exec(transaction).await?;
    let kept = operator_session::Entity::find()
        .select_only()
        .column(Column::Digest)
        .filter(Column::OperatorId.eq(operator_id))
        .order_by_desc(Column::ExpiresAt)
        .limit(Operator::MAX_SESSIONS);
    operator_session::Entity::delete_many()
        .filter(Column::OperatorId.eq(operator_id))
        .filter(Column::Digest.not_in_subquery(kept.into_query()))
        .filter(Column::Digest.ne(new))
        .exec(transaction)
        .await?;
    Ok(())
}
