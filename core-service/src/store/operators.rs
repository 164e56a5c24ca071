//! Operators in the database.

use std::{collections::HashSet, time::Duration};

use futures_util::future::BoxFuture;
use petstore_api_key::{KeyDigest, OperatorToken};
use petstore_clock::UnixMillis;
use petstore_database::{Session, fault};
use sea_orm::{
    ActiveValue::Set, ColumnTrait, Condition, EntityTrait, QueryFilter, QueryOrder, QuerySelect, QueryTrait,
    Select, sea_query::Expr,
};

use super::{
    Store, audit,
    entity::{
        moment_column,
        operator::{self, Column},
        operator_session,
    },
    operator_sessions::has_session,
};
use crate::domain::{Actor, Operator, OperatorName, PageSize, PetStoreError, Role};

impl Store {
    /// Returns the result of an actor's change, in an exclusive transaction. The transaction checks the
    /// actor's token again, because another operator may have revoked it meanwhile.
    ///
    /// # Errors
    ///
    /// [`PetStoreError::InvalidOperatorToken`], or that of the change.
    pub(super) async fn change<T, F>(
        &self,
        actor: &Actor,
        now: UnixMillis,
        change: F,
    ) -> Result<T, PetStoreError>
    where
        T: Send + 'static,
        F: for<'c> FnOnce(&'c Session) -> BoxFuture<'c, Result<T, PetStoreError>> + Send + 'static,
    {
        let find = actor.token.as_ref().map(|token| with_token(token, now));
        self.database
            .transaction(move |transaction| {
                Box::pin(async move {
                    if let Some(find) = find
                        && find.all(transaction).await?.is_empty()
                    {
                        return Err(PetStoreError::InvalidOperatorToken);
                    }
                    change(transaction).await
                })
            })
            .await
    }

    /// Creates an operator.
    ///
    /// # Errors
    ///
    /// [`PetStoreError::OperatorExists`] if the name is taken, or the store's error.
    pub async fn create_operator(
        &self,
        actor: &Actor,
        name: &OperatorName,
        role: Role,
        now: UnixMillis,
    ) -> Result<(Operator, OperatorToken), PetStoreError> {
        let token = OperatorToken::generate();
        let (actor, name) = (actor.clone(), name.clone());
        self.change(&actor.clone(), now, move |transaction| {
            Box::pin(async move {
                let operator = insert(transaction, &actor, &name, role, &token, now).await?;
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
    #[must_use]
    pub fn create_first_operator<'a>(
        &'a self,
        token: &'a OperatorToken,
        now: UnixMillis,
    ) -> BoxFuture<'a, Result<Option<Operator>, PetStoreError>> {
        Box::pin(async move {
            let (name, token) = (OperatorName::parse("first")?, token.clone());
            self.database
                .transaction(move |transaction| {
                    Box::pin(async move {
                        if !operator::Entity::find().limit(1).all(transaction).await?.is_empty() {
                            return Ok(None);
                        }
                        insert(transaction, &Actor::LOCAL, &name, Role::Admin, &token, now).await.map(Some)
                    })
                })
                .await
        })
    }

    /// Returns `true` if there is an operator, even a revoked one.
    ///
    /// # Errors
    ///
    /// If the database fails.
    #[must_use]
    pub fn has_operators(&self) -> BoxFuture<'_, Result<bool, PetStoreError>> {
        Box::pin(async move { Ok(!self.database.all(operator::Entity::find().limit(1)).await?.is_empty()) })
    }

    /// Returns `true` if an operator has this token, in any state.
    ///
    /// # Errors
    ///
    /// If the database fails.
    #[must_use]
    pub fn has_token<'a>(&'a self, token: &'a OperatorToken) -> BoxFuture<'a, Result<bool, PetStoreError>> {
        Box::pin(async move {
            let find = operator::Entity::find().filter(Column::Digest.eq(token.digest().0.to_vec()));
            Ok(!self.database.all(find).await?.is_empty())
        })
    }

    /// Revokes an operator's token permanently, with immediate effect. An operator that is already revoked
    /// stays unchanged. Without `force` neither the actor nor the last admin is revoked.
    ///
    /// # Errors
    ///
    /// [`PetStoreError::OperatorNotFound`], [`PetStoreError::ForceRequired`], or the store's error.
    pub async fn revoke_operator(
        &self,
        actor: &Actor,
        name: &OperatorName,
        force: bool,
        now: UnixMillis,
    ) -> Result<Operator, PetStoreError> {
        let (actor, name) = (actor.clone(), name.clone());
        self.change(&actor.clone(), now, move |transaction| {
            Box::pin(async move {
                let before = find(transaction, &name).await?;
                if before.revoked_at.is_some() {
                    return Ok(before);
                }
                if !force {
                    refuse_lockout(transaction, &actor, &before).await?;
                }
                operator::Entity::update_many()
                    .col_expr(Column::RevokedAt, Expr::value(moment_column(now)))
                    .filter(Column::Name.eq(name.as_str()))
                    .exec(transaction)
                    .await?;
                let after = Operator { revoked_at: Some(now), ..before.clone() };
                audit::change(transaction, &actor, now, "RevokeOperator", Some(&before), &after).await?;
                Ok(after)
            })
        })
        .await
    }

    /// Replaces the token of an operator and ends its sessions. A revoked operator may then act again.
    ///
    /// # Errors
    ///
    /// [`PetStoreError::OperatorNotFound`], or the store's error.
    pub async fn rotate_operator(
        &self,
        actor: &Actor,
        name: &OperatorName,
        now: UnixMillis,
    ) -> Result<(Operator, OperatorToken), PetStoreError> {
        let token = OperatorToken::generate();
        let (actor, name) = (actor.clone(), name.clone());
        self.change(&actor.clone(), now, move |transaction| {
            Box::pin(async move {
                let before = find(transaction, &name).await?;
                operator::Entity::update_many()
                    .col_expr(Column::Digest, Expr::value(token.digest().0.to_vec()))
                    .col_expr(Column::LastFour, Expr::value(token.last_four()))
                    .col_expr(Column::RevokedAt, Expr::value(None::<i64>))
                    .filter(Column::Name.eq(name.as_str()))
                    .exec(transaction)
                    .await?;
                let id = operator::Entity::find()
                    .select_only()
                    .column(Column::Id)
                    .filter(Column::Name.eq(name.as_str()))
                    .into_query();
                operator_session::Entity::delete_many()
                    .filter(operator_session::Column::OperatorId.in_subquery(id))
                    .exec(transaction)
                    .await?;
                let last_four = Some(token.last_four().to_owned());
                let after = Operator { last_four, revoked_at: None, ..before.clone() };
                audit::change(transaction, &actor, now, "RotateOperator", Some(&before), &after).await?;
                Ok((after, token))
            })
        })
        .await
    }

    /// Returns the digests of all tokens that may be valid at `now`, those of sessions included.
    pub(crate) async fn valid_operator_digests(
        &self,
        now: UnixMillis,
    ) -> Result<HashSet<KeyDigest>, PetStoreError> {
        let tokens =
            operator::Entity::find().select_only().column(Column::Digest).filter(Column::RevokedAt.is_null());
        let sessions = operator_session::Entity::find()
            .select_only()
            .column(operator_session::Column::Digest)
            .filter(operator_session::Column::ExpiresAt.gt(moment_column(now)));
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
    ) -> Result<(Vec<(i64, Operator)>, Option<i64>), PetStoreError> {
        let (rows, total) =
            self.database.page(operator::Entity::find(), Column::Id, after, size.get()).await?;
        let operators = rows.into_iter().map(|row| Ok((row.id, row.try_into()?)));
        Ok((operators.collect::<Result<_, PetStoreError>>()?, total))
    }

    /// Returns the operator that this token, or session's token, belongs to. The operator must not be
    /// revoked, and the session must not have expired. Records the use.
    pub(crate) async fn authenticate_operator(
        &self,
        token: &OperatorToken,
        now: UnixMillis,
    ) -> Result<Option<Operator>, PetStoreError> {
        let Some(row) = self.database.all(with_token(token, now)).await?.pop() else {
            return Ok(None);
        };
        let (id, operator) = (row.id, Operator::try_from(row)?);
        // The time of the last use is stored to the minute.
        if operator.last_used_at.is_none_or(|used| used.plus(Duration::from_mins(1)) <= now) {
            let used = operator::Entity::update_many()
                .col_expr(Column::LastUsedAt, Expr::value(moment_column(now)))
                .filter(Column::Id.eq(id));
            let noted = self.database.transaction(move |transaction| {
                Box::pin(async move { Ok::<_, PetStoreError>(used.exec(transaction).await.map(drop)?) })
            });
            if let Err(error) = noted.await {
                // The next call tries again.
                tracing::debug!("the use of an operator token was not recorded: {error}");
            }
        }
        Ok(Some(operator))
    }
}

/// Selects the operator whose token, or session's token, this is, unless the operator is revoked or the
/// session has expired.
fn with_token(token: &OperatorToken, now: UnixMillis) -> Select<operator::Entity> {
    let is_it = if token.is_session() {
        has_session(token.digest(), now)
    } else {
        Condition::all().add(Column::Digest.eq(token.digest().0.to_vec()))
    };
    operator::Entity::find().filter(is_it).filter(Column::RevokedAt.is_null())
}

async fn find(transaction: &Session, name: &OperatorName) -> Result<Operator, PetStoreError> {
    let find = operator::Entity::find().filter(Column::Name.eq(name.as_str()));
    let row = find.all(transaction).await?.pop();
    row.ok_or_else(|| PetStoreError::OperatorNotFound(name.clone()))?.try_into()
}

/// Refuses to revoke the last admin, or the actor. Locks the admins, so that two of them do not revoke each
/// other.
async fn refuse_lockout(
    transaction: &Session,
    actor: &Actor,
    operator: &Operator,
) -> Result<(), PetStoreError> {
    let admins = operator::Entity::find()
        .filter(Column::Role.eq(Role::Admin.name()))
        .filter(Column::RevokedAt.is_null())
        .order_by_asc(Column::Id)
        .lock_exclusive();
    let admins = admins.all(transaction).await?;
    let message = if operator.role == Role::Admin && admins.len() <= 1 {
        format!(
            "{} is the last admin: after this, only `petstore` on the database host can make changes",
            operator.name
        )
    } else if actor.operator == operator.name {
        format!("{} is you: this revokes your own token and ends your sessions", operator.name)
    } else {
        return Ok(());
    };
    Err(PetStoreError::ForceRequired { message })
}

async fn insert(
    transaction: &Session,
    actor: &Actor,
    name: &OperatorName,
    role: Role,
    token: &OperatorToken,
    now: UnixMillis,
) -> Result<Operator, PetStoreError> {
    let row = operator::ActiveModel {
        name: Set(name.to_string()),
        role: Set(role.name().to_owned()),
        digest: Set(token.digest().0.to_vec()),
        last_four: Set(token.last_four().to_owned()),
        created_at: Set(moment_column(now)),
        revoked_at: Set(None),
        last_used_at: Set(None),
        ..Default::default()
    };
    let operator: Operator = match operator::Entity::insert(row).exec_with_returning(transaction).await {
        Ok(row) => row.try_into()?,
        Err(error) if fault::is_duplicate(&error) => return Err(PetStoreError::OperatorExists(name.clone())),
        Err(error) => return Err(error.into()),
    };
    audit::change(transaction, actor, now, "CreateOperator", None, &operator).await?;
    Ok(operator)
}

#[cfg(test)]
mod tests {
    use petstore_api_key::Environment;

    use super::*;
    use crate::{
        domain::{AccountName, AccountUpdate, Plan},
        store::test_support::new_store,
    };

    const NOW: UnixMillis = UnixMillis(1_800_000_000_000);

    /// Makes changes of every kind, each of which must fail as if the actor were unknown.
    async fn changes_nothing(store: &Store, actor: &Actor) {
        let [shop, zoo] = ["shop", "zoo"].map(|name| AccountName::parse(name).unwrap());
        let [bea, eve] = ["bea", "eve"].map(|name| OperatorName::parse(name).unwrap());
        let key = store
            .create_key(&Actor::LOCAL, &shop, None, Environment::Production, None, NOW)
            .await
            .unwrap()
            .record
            .id;
        let rename = AccountUpdate { name: Some(zoo.clone()), plan: None };
        let answers = [
            store.create_account(actor, &zoo, Plan::Free, NOW).await.map(drop),
            store.update_account(actor, &shop, rename, NOW).await.map(drop),
            store.create_key(actor, &shop, None, Environment::Production, None, NOW).await.map(drop),
            store.revoke_key(actor, key, NOW).await.map(drop),
            store.lift_ban(actor, key, NOW).await,
            store.create_operator(actor, &eve, Role::Admin, NOW).await.map(drop),
            store.rotate_operator(actor, &bea, NOW).await.map(drop),
            store.revoke_operator(actor, &bea, true, NOW).await.map(drop),
        ];
        for answer in answers {
            assert!(matches!(answer, Err(PetStoreError::InvalidOperatorToken)), "{answer:?}");
        }
        assert!(store.find_account(&zoo).await.is_err());
    }

    #[tokio::test]
    async fn a_change_by_an_operator_who_was_revoked_since_the_token_was_checked_is_refused() {
        let (store, _home) = new_store().await;
        let [ann, bea] = ["ann", "bea"].map(|name| OperatorName::parse(name).unwrap());
        store
            .create_account(&Actor::LOCAL, &AccountName::parse("shop").unwrap(), Plan::Free, NOW)
            .await
            .unwrap();
        let (_, token) = store.create_operator(&Actor::LOCAL, &ann, Role::Admin, NOW).await.unwrap();
        store.create_operator(&Actor::LOCAL, &bea, Role::Admin, NOW).await.unwrap();
        let actor = |token: &OperatorToken| Actor {
            operator: ann.clone(),
            token: Some(token.clone()),
            client_address: None,
        };
        let of_token = actor(&token);
        let session = store.open_session(&of_token, &token, NOW).await.unwrap();
        assert!(store.authenticate_operator(&token, NOW).await.unwrap().is_some());

        store.end_session(&of_token, session.digest(), NOW).await.unwrap();
        changes_nothing(&store, &actor(&session)).await;
        let (_, new_token) = store.rotate_operator(&of_token, &ann, NOW).await.unwrap();
        changes_nothing(&store, &of_token).await;
        let of_new_token = actor(&new_token);
        store.revoke_operator(&of_new_token, &ann, true, NOW).await.unwrap(); // itself
        changes_nothing(&store, &of_new_token).await;
    }
}
