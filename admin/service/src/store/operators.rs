//! Operators in the database.

use std::{collections::HashSet, time::Duration};

use petstore_caller::api_key::{KeyDigest, OperatorToken};
use petstore_clock::UnixMillis;
use petstore_core::{accounts::NewExpiry, pages::PageSize, violations::Violation};
use petstore_database::{Session, fault};
use sea_orm::{
    ActiveValue::Set, ColumnTrait, Condition, EntityTrait, QueryFilter, QueryOrder, QuerySelect, Select,
    UpdateMany, sea_query::Expr,
};

use super::{
    ActorChange, AdminStore,
    entity::{
        operator::{self, Column, is_valid},
        operator_session,
    },
    sessions::has_session,
};
use crate::{
    domain::{Actor, Operator, OperatorName, Role},
    error::{AdminError, Result},
};

impl AdminStore {
    /// Creates an operator, whose token expires at that time, if ever.
    ///
    /// # Errors
    ///
    /// [`AdminError::OperatorExists`] if the name is taken, or the store's error.
    pub async fn create_operator(
        &self,
        actor: &Actor,
        name: &OperatorName,
        role: Role,
        expires_at: Option<UnixMillis>,
        now: UnixMillis,
    ) -> Result<(Operator, OperatorToken)> {
        let token = OperatorToken::generate();
        let name = name.clone();
        self.change(actor, now, move |change| {
            Box::pin(async move {
                let operator = insert(&change, &name, role, &token, expires_at).await?;
                Ok((operator, token))
            })
        })
        .await
    }

    /// Creates operator `first`, an admin with this token, if there is no operator yet, in one transaction.
    /// The token is the caller's, so that it can be stored safely before the operator exists.
    ///
    /// # Errors
    ///
    /// If the database fails.
    pub async fn create_first_operator(
        &self,
        token: &OperatorToken,
        now: UnixMillis,
    ) -> Result<Option<Operator>> {
        let (name, token) = (OperatorName::parse("first")?, token.clone());
        self.change(&Actor::LOCAL, now, move |change| {
            Box::pin(async move {
                if !operator::Entity::find().limit(1).all(change.session).await?.is_empty() {
                    return Ok(None);
                }
                insert(&change, &name, Role::Admin, &token, None).await.map(Some)
            })
        })
        .await
    }

    /// Returns `true` if there is an operator, even a revoked one.
    ///
    /// # Errors
    ///
    /// If the database fails.
    pub async fn has_operators(&self) -> Result<bool> {
        Ok(!self.database.all(operator::Entity::find().limit(1)).await?.is_empty())
    }

    /// Returns `true` if an operator has this token, in any state.
    ///
    /// # Errors
    ///
    /// If the database fails.
    pub async fn has_token(&self, token: &OperatorToken) -> Result<bool> {
        let find = operator::Entity::find().filter(Column::Digest.eq(token.digest().0.to_vec()));
        Ok(!self.database.all(find).await?.is_empty())
    }

    /// Revokes an operator's token permanently, with immediate effect. An operator that is already revoked
    /// stays unchanged. Without `force` neither the actor nor the last admin is revoked.
    ///
    /// # Errors
    ///
    /// [`AdminError::OperatorNotFound`], [`AdminError::ForceRequired`], or the store's error.
    pub async fn revoke_operator(
        &self,
        actor: &Actor,
        name: &OperatorName,
        force: bool,
        now: UnixMillis,
    ) -> Result<Operator> {
        let name = name.clone();
        self.change(actor, now, move |change| {
            Box::pin(async move {
                let before: Operator = find(change.session, &name).await?.try_into()?;
                if before.revoked_at.is_some() {
                    return Ok(before);
                }
                if !force {
                    refuse_lockout(&change, &before).await?;
                }
                operator::Entity::update_many()
                    .col_expr(Column::RevokedAt, Expr::value(now.as_i64()))
                    .filter(Column::Name.eq(name.as_str()))
                    .exec(change.session)
                    .await?;
                let after = Operator { revoked_at: Some(now), ..before.clone() };
                change.record("RevokeOperator", Some(&before), &after).await?;
                Ok(after)
            })
        })
        .await
    }

    /// Replaces the token of an operator and ends its sessions. A revoked operator may then act again.
    ///
    /// # Errors
    ///
    /// [`AdminError::OperatorNotFound`], `PetStoreError::Invalid` if the old token expires and no expiry is
    /// given, or the store's error.
    pub async fn rotate_operator(
        &self,
        actor: &Actor,
        name: &OperatorName,
        expiry: NewExpiry,
        now: UnixMillis,
    ) -> Result<(Operator, OperatorToken)> {
        let token = OperatorToken::generate();
        let name = name.clone();
        self.change(actor, now, move |change| {
            Box::pin(async move {
                let row = find(change.session, &name).await?;
                let (id, before) = (row.id, Operator::try_from(row)?);
                let expires_at = match expiry {
                    NewExpiry::SameLifetime if before.expires_at.is_some() => {
                        let rule = "is required, or never, because the old token expires";
                        return Err(Violation::new("ttl", rule).into());
                    }
                    NewExpiry::SameLifetime | NewExpiry::Never => None,
                    NewExpiry::At(at) => Some(at),
                };
                operator::Entity::update_many()
                    .col_expr(Column::ExpiresAt, Expr::value(expires_at.map(UnixMillis::as_i64)))
                    .col_expr(Column::Digest, Expr::value(token.digest().0.to_vec()))
                    .col_expr(Column::LastFour, Expr::value(token.last_four()))
                    .col_expr(Column::RevokedAt, Expr::value(None::<i64>))
                    .filter(Column::Name.eq(name.as_str()))
                    .exec(change.session)
                    .await?;
                let of_operator = operator_session::Column::OperatorId.eq(id);
                operator_session::Entity::delete_many().filter(of_operator).exec(change.session).await?;
                let last_four = Some(token.last_four().to_owned());
                let after = Operator { last_four, revoked_at: None, expires_at, ..before.clone() };
                change.record("RotateOperator", Some(&before), &after).await?;
                Ok((after, token))
            })
        })
        .await
    }

    /// Returns the digests of all tokens that may be valid at `now`, those of sessions included.
    pub(crate) async fn valid_operator_digests(&self, now: UnixMillis) -> Result<HashSet<KeyDigest>> {
        let tokens = operator::Entity::find().select_only().column(Column::Digest).filter(is_valid(now));
        let sessions = operator_session::Entity::find()
            .select_only()
            .column(operator_session::Column::Digest)
            .filter(operator_session::Column::ExpiresAt.gt(now.as_i64()));
        let tokens = self.database.read(move |db| Box::pin(tokens.clone().into_tuple().all(db)));
        let mut digests: Vec<Vec<u8>> = tokens.await?;
        let sessions = self.database.read(move |db| Box::pin(sessions.clone().into_tuple().all(db)));
        digests.extend(sessions.await?);
        Ok(digests.into_iter().filter_map(|digest| digest.try_into().ok().map(KeyDigest)).collect())
    }

    /// Returns the operators after a position, newest first, with their positions: one more than a page has.
    /// The first page includes the total.
    pub(crate) async fn list_operators(
        &self,
        size: PageSize,
        after: Option<i64>,
    ) -> Result<(Vec<(i64, Operator)>, Option<i64>)> {
        let (rows, total) =
            self.database.page(operator::Entity::find(), Column::Id, after, size.get()).await?;
        let operators = rows.into_iter().map(|row| Ok((row.id, row.try_into()?)));
        Ok((operators.collect::<Result<_>>()?, total))
    }

    /// Returns the operator that this token, or session's token, belongs to. The operator must not be
    /// revoked, and the session must not have expired. Records the use.
    pub(crate) async fn authenticate_operator(
        &self,
        token: &OperatorToken,
        now: UnixMillis,
    ) -> Result<Option<Operator>> {
        let Some(row) = self.database.all(with_token(token, now)).await?.pop() else {
            return Ok(None);
        };
        let (id, operator) = (row.id, Operator::try_from(row)?);
        if token.is_session() {
            self.extend_session(token.digest(), now).await?;
        }
        // The time of the last use is stored to the minute.
        if operator.last_used_at.is_none_or(|used| used.plus(Duration::from_mins(1)) <= now) {
            let used = operator::Entity::update_many()
                .col_expr(Column::LastUsedAt, Expr::value(now.as_i64()))
                .filter(Column::Id.eq(id));
            self.note_use(used).await;
        }
        Ok(Some(operator))
    }

    /// Records the use of a token. If that fails, the next call tries again.
    pub(super) async fn note_use<E: EntityTrait>(&self, used: UpdateMany<E>) {
        let noted = self.database.transaction(move |transaction| {
            Box::pin(async move { Ok::<_, AdminError>(used.exec(transaction).await.map(drop)?) })
        });
        if let Err(error) = noted.await {
            tracing::debug!("the use of an operator token was not recorded: {error}");
        }
    }
}

/// Selects the operator whose token, or session's token, this is, unless the operator's token is no longer
/// valid or the session has expired.
pub(super) fn with_token(token: &OperatorToken, now: UnixMillis) -> Select<operator::Entity> {
    let is_it = if token.is_session() {
        has_session(token.digest(), now)
    } else {
        Condition::all().add(Column::Digest.eq(token.digest().0.to_vec()))
    };
    operator::Entity::find().filter(is_it).filter(is_valid(now))
}

async fn find(transaction: &Session, name: &OperatorName) -> Result<operator::Model> {
    let find = operator::Entity::find().filter(Column::Name.eq(name.as_str()));
    find.all(transaction).await?.pop().ok_or_else(|| AdminError::OperatorNotFound(name.clone()))
}

/// Refuses to revoke the last admin, or the actor. Locks the admins, so that two of them do not revoke each
/// other.
async fn refuse_lockout(change: &ActorChange<'_>, operator: &Operator) -> Result<()> {
    let admins = operator::Entity::find()
        .filter(Column::Role.eq(Role::Admin.name()))
        .filter(is_valid(change.now))
        .order_by_asc(Column::Id)
        .lock_exclusive();
    let admins = admins.all(change.session).await?;
    let message = if operator.role == Role::Admin && admins.len() <= 1 {
        format!(
            "{} is the last admin: after this, only `petstore` on the database host can make changes",
            operator.name
        )
    } else if change.actor.operator == operator.name {
        format!("{} is you: this revokes your own token and ends your sessions", operator.name)
    } else {
        return Ok(());
    };
    Err(AdminError::ForceRequired { message })
}

async fn insert(
    change: &ActorChange<'_>,
    name: &OperatorName,
    role: Role,
    token: &OperatorToken,
    expires_at: Option<UnixMillis>,
) -> Result<Operator> {
    let row = operator::ActiveModel {
        name: Set(name.to_string()),
        role: Set(role.name().to_owned()),
        digest: Set(token.digest().0.to_vec()),
        last_four: Set(token.last_four().to_owned()),
        created_at: Set(change.now.as_i64()),
        expires_at: Set(expires_at.map(UnixMillis::as_i64)),
        ..Default::default()
    };
    let operator: Operator = match operator::Entity::insert(row).exec_with_returning(change.session).await {
        Ok(row) => row.try_into()?,
        Err(error) if fault::is_duplicate(&error, "operators_name_key") => {
            return Err(AdminError::OperatorExists(name.clone()));
        }
        Err(error) => return Err(error.into()),
    };
    change.record("CreateOperator", None, &operator).await?;
    Ok(operator)
}
