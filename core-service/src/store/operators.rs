//! Operators in the database.

use std::time::Duration;

use petstore_api_key::{KeyDigest, OperatorToken};
use petstore_clock::UnixMillis;
use sea_orm::{
    ActiveValue::Set, ColumnTrait, Condition, EntityTrait, QueryFilter, QueryOrder, QuerySelect,
    sea_query::Expr,
};

use super::{
    Session, Store, audit,
    entity::{
        account::moment_column,
        operator::{self, Column},
    },
    fault,
};
use crate::domain::{
    Actor, Change, IssuedOperator, Operator, OperatorName, PageSize, PetStoreError, Role, Subject,
    operator_json,
};

/// The name of the operator that a new store begins with.
const FIRST_OPERATOR: &str = "first";
/// How exactly it is known when a token was last used.
const USE_RESOLUTION: Duration = Duration::from_mins(1);

/// The operators of a store.
#[derive(Clone, Copy, Debug)]
pub struct Operators<'a> {
    pub(super) store: &'a Store,
    pub(super) actor: &'a Actor,
}

impl<'a> Operators<'a> {
    /// The same, changed by that actor.
    #[must_use]
    pub fn by(self, actor: &'a Actor) -> Self {
        Self { actor, ..self }
    }

    /// Creates an operator.
    ///
    /// # Errors
    ///
    /// [`PetStoreError::OperatorExists`] if the name is taken, or the store's error.
    pub async fn create(
        self,
        name: &OperatorName,
        role: Role,
        now: UnixMillis,
    ) -> Result<IssuedOperator, PetStoreError> {
        let token = OperatorToken::generate();
        let (actor, name, shown) = (self.actor.clone(), name.clone(), token.clone());
        let operator = self
            .store
            .transaction(move |transaction| {
                Box::pin(async move { insert(transaction, &actor, &name, role, &shown, now).await })
            })
            .await?;
        Ok(IssuedOperator { operator, token })
    }

    /// Creates operator `first`, an admin with this token, if there is no operator yet, in one transaction.
    /// The token is the caller's, so that it can be in safe keeping before the operator exists.
    ///
    /// # Errors
    ///
    /// The store's error.
    pub async fn create_first(
        self,
        token: &OperatorToken,
        now: UnixMillis,
    ) -> Result<Option<Operator>, PetStoreError> {
        let (actor, token) = (self.actor.clone(), token.clone());
        let name = OperatorName::parse(FIRST_OPERATOR)?;
        self.store
            .transaction(move |transaction| {
                Box::pin(async move {
                    if !operator::Entity::find().limit(1).all(transaction).await?.is_empty() {
                        return Ok(None);
                    }
                    insert(transaction, &actor, &name, Role::Admin, &token, now).await.map(Some)
                })
            })
            .await
    }

    /// Whether there is any operator, revoked ones included.
    ///
    /// # Errors
    ///
    /// The store's error.
    pub async fn is_empty(self) -> Result<bool, PetStoreError> {
        let find = operator::Entity::find().limit(1);
        Ok(self.store.read(move |db| Box::pin(find.clone().all(db))).await?.is_empty())
    }

    /// Revokes an operator's token for good, at once; one that is revoked already stays as it is.
    ///
    /// # Errors
    ///
    /// [`PetStoreError::OperatorNotFound`], or the store's error.
    pub async fn revoke(self, name: &OperatorName, now: UnixMillis) -> Result<Operator, PetStoreError> {
        let (actor, name) = (self.actor.clone(), name.clone());
        self.store
            .transaction(move |transaction| {
                Box::pin(async move {
                    let find = operator::Entity::find().filter(Column::Name.eq(name.as_str()));
                    let row = find.all(transaction).await?.pop();
                    let before =
                        Operator::try_from(row.ok_or(PetStoreError::OperatorNotFound(name.clone()))?)?;
                    if before.revoked_at.is_some() {
                        return Ok(before);
                    }
                    operator::Entity::update_many()
                        .col_expr(Column::RevokedAt, Expr::value(moment_column(now)))
                        .filter(Column::Name.eq(name.as_str()))
                        .exec(transaction)
                        .await?;
                    let after = Operator { revoked_at: Some(now), ..before.clone() };
                    let change = Change {
                        action: "RevokeOperator",
                        subject: Subject::Operator(name),
                        before: Some(operator_json(&before)),
                        after: Some(operator_json(&after)),
                    };
                    audit::record(transaction, &actor, now, change).await?;
                    Ok(after)
                })
            })
            .await
    }

    /// Returns the operators that come after that position, newest first, with their positions: one more than a
    /// page has. With the first page comes the number of all.
    pub(crate) async fn list(
        self,
        size: PageSize,
        after: Option<i64>,
    ) -> Result<(Vec<(i64, Operator)>, Option<u64>), PetStoreError> {
        let find = operator::Entity::find();
        let total = if after.is_none() { Some(self.store.count(find.clone()).await?) } else { None };
        let find = find
            .filter(Condition::all().add_option(after.map(|after| Column::Id.lt(after))))
            .order_by_desc(Column::Id)
            .limit(size.get() as u64 + 1);
        let rows = self.store.read(move |db| Box::pin(find.clone().all(db))).await?;
        let operators = rows.into_iter().map(|row| Ok((row.id, row.try_into()?)));
        Ok((operators.collect::<Result<_, PetStoreError>>()?, total))
    }

    /// The operator whose token has that digest, if it is not revoked.
    pub(crate) async fn authenticate(
        self,
        digest: KeyDigest,
        now: UnixMillis,
    ) -> Result<Option<Operator>, PetStoreError> {
        self.admit(Condition::all().add(Column::Digest.eq(digest.0.to_vec())), now).await
    }

    /// The operator whom that condition names, if there is one and it is not revoked. Takes note of the use.
    pub(super) async fn admit(
        self,
        condition: Condition,
        now: UnixMillis,
    ) -> Result<Option<Operator>, PetStoreError> {
        let find = operator::Entity::find().filter(condition);
        let Some(row) = self.store.read(move |db| Box::pin(find.clone().all(db))).await?.pop() else {
            return Ok(None);
        };
        let (id, operator) = (row.id, Operator::try_from(row)?);
        if operator.revoked_at.is_some() {
            return Ok(None);
        }
        if operator.last_used_at.is_none_or(|used| used.plus(USE_RESOLUTION) <= now) {
            let used = operator::Entity::update_many()
                .col_expr(Column::LastUsedAt, Expr::value(moment_column(now)))
                .filter(Column::Id.eq(id));
            let noted: Result<(), PetStoreError> = self
                .store
                .transaction(move |transaction| {
                    Box::pin(async move { Ok(used.exec(transaction).await.map(drop)?) })
                })
                .await;
            if let Err(error) = noted {
                // The next call tries again.
                tracing::debug!("the use of an operator token was not noted: {error}");
            }
        }
        Ok(Some(operator))
    }
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
    let change = Change {
        action: "CreateOperator",
        subject: Subject::Operator(name.clone()),
        before: None,
        after: Some(operator_json(&operator)),
    };
    audit::record(transaction, actor, now, change).await?;
    Ok(operator)
}
