//! Sessions of operators in the database.

use std::time::Duration;

use petstore_api_key::{KeyDigest, OperatorToken};
use petstore_clock::UnixMillis;
use petstore_database::Session;
use sea_orm::{
    ActiveValue::Set, ColumnTrait, Condition, DbErr, EntityTrait, QueryFilter, QueryOrder, QuerySelect,
    QueryTrait, sea_query::Expr,
};
use serde_json::{Value, json};

use super::{
    AdminStore, audit,
    entity::{
        operator,
        operator_session::{self, Column},
    },
};
use crate::{
    domain::{Actor, Change, Operator, Subject},
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
                        .filter(operator::Column::RevokedAt.is_null());
                    let row = find.all(transaction).await?.pop();
                    let operator_id = row.ok_or(AdminError::InvalidOperatorToken)?.id;
                    let expires_at = now.plus(Operator::SESSION_TTL);
                    let session = operator_session::ActiveModel {
                        digest: Set(of_session),
                        operator_id: Set(operator_id),
                        expires_at: Set(expires_at.as_i64()),
                    };
                    operator_session::Entity::insert(session).exec_without_returning(transaction).await?;
                    remove_old(transaction, operator_id, now).await?;
                    let after = Some(json!({ "expireTime": expires_at.to_string() }));
                    record(transaction, &actor, "CreateSession", after, now).await?;
                    Ok::<_, AdminError>(())
                })
            })
            .await?;
        Ok(session)
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
                    Ok(record(transaction, &actor, "EndSession", None, now).await?)
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

/// Records that a session began or ended, unless the actor has a recent event of that action.
async fn record(
    transaction: &Session,
    actor: &Actor,
    action: &'static str,
    after: Option<Value>,
    now: UnixMillis,
) -> Result<(), DbErr> {
    // An operator's sign-ins from one address leave one event a minute, so that they cannot flood the audit
    // log.
    if audit::has_since(transaction, actor, action, now.minus(Duration::from_mins(1))).await? {
        return Ok(());
    }
    let change = Change { action, subject: Subject::Operator(actor.operator.clone()), before: None, after };
    audit::record(transaction, actor, now, change).await
}

fn is_session(digest: KeyDigest) -> Expr {
    Column::Digest.eq(digest.0.to_vec())
}

/// Removes all sessions that have expired, and the oldest of this operator if there are too many.
async fn remove_old(transaction: &Session, operator_id: i64, now: UnixMillis) -> Result<(), DbErr> {
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
        .exec(transaction)
        .await?;
    Ok(())
}
