//! Sessions of operators in the database.

use petstore_api_key::{KeyDigest, SessionToken};
use petstore_clock::UnixMillis;
use sea_orm::{
    ActiveValue::Set, ColumnTrait, Condition, DbErr, EntityTrait, QueryFilter, QueryOrder, QuerySelect,
    QueryTrait, sea_query::Expr,
};
use serde_json::json;

use super::{
    Operators, Session, audit,
    entity::{
        account::moment_column,
        operator,
        operator_session::{self, Column},
    },
};
use crate::domain::{Change, Operator, OperatorName, PetStoreError, Subject};

impl Operators<'_> {
    /// Opens a session of that operator.
    ///
    /// # Errors
    ///
    /// [`PetStoreError::OperatorNotFound`], or the store's error.
    pub(crate) async fn open_session(
        self,
        name: &OperatorName,
        now: UnixMillis,
    ) -> Result<SessionToken, PetStoreError> {
        let token = SessionToken::generate();
        let (actor, name, digest) = (self.actor.clone(), name.clone(), token.digest());
        self.store
            .transaction(move |transaction| {
                Box::pin(async move {
                    let find = operator::Entity::find().filter(operator::Column::Name.eq(name.as_str()));
                    let row = find.all(transaction).await?.pop();
                    let operator_id = row.ok_or(PetStoreError::OperatorNotFound(name.clone()))?.id;
                    let expires_at = now.plus(Operator::SESSION_TTL);
                    let session = operator_session::ActiveModel {
                        digest: Set(digest.0.to_vec()),
                        operator_id: Set(operator_id),
                        expires_at: Set(moment_column(expires_at)),
                    };
                    operator_session::Entity::insert(session).exec_without_returning(transaction).await?;
                    remove_old(transaction, operator_id, now).await?;
                    let change = Change {
                        action: "CreateSession",
                        subject: Subject::Operator(name),
                        before: None,
                        after: Some(json!({ "expireTime": expires_at.to_string() })),
                    };
                    audit::record(transaction, &actor, now, change).await?;
                    Ok::<_, PetStoreError>(())
                })
            })
            .await?;
        Ok(token)
    }

    /// Ends the session of that operator whose token has that digest, if it is still open.
    pub(crate) async fn end_session(
        self,
        name: &OperatorName,
        digest: KeyDigest,
        now: UnixMillis,
    ) -> Result<(), PetStoreError> {
        let (actor, name) = (self.actor.clone(), name.clone());
        self.store
            .transaction(move |transaction| {
                Box::pin(async move {
                    let end = operator_session::Entity::delete_many().filter(is_session(digest));
                    if end.exec(transaction).await?.rows_affected == 0 {
                        return Ok(());
                    }
                    let subject = Subject::Operator(name);
                    let change = Change { action: "EndSession", subject, before: None, after: None };
                    audit::record(transaction, &actor, now, change).await?;
                    Ok(())
                })
            })
            .await
    }

    /// The operator whose session has that token, if neither the session has expired nor the operator is
    /// revoked.
    pub(crate) async fn authenticate_session(
        self,
        digest: KeyDigest,
        now: UnixMillis,
    ) -> Result<Option<Operator>, PetStoreError> {
        let session = operator_session::Entity::find()
            .select_only()
            .column(Column::OperatorId)
            .filter(is_session(digest))
            .filter(Column::ExpiresAt.gt(moment_column(now)));
        let has_session = operator::Column::Id.in_subquery(session.into_query());
        self.admit(Condition::all().add(has_session), now).await
    }
}

fn is_session(digest: KeyDigest) -> Expr {
    Column::Digest.eq(digest.0.to_vec())
}

/// Removes the sessions of everybody that have expired, and the oldest of this operator if there are too
/// many.
async fn remove_old(transaction: &Session, operator_id: i64, now: UnixMillis) -> Result<(), DbErr> {
    let expired = Column::ExpiresAt.lte(moment_column(now));
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
