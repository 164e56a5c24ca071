//! The first account of a new store.

use petstore_api_key::{ApiKey, OperatorToken};
use petstore_clock::UnixMillis;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QuerySelect};

use super::{
    Accounts, Operators, accounts,
    entity::{account, api_key, operator},
    keys,
};
use crate::domain::{AccountName, ApiKeyRecord, NewApiKey, PetStoreError, Plan};

/// Name of the first account.
const FIRST_ACCOUNT: &str = "first";

impl Accounts<'_> {
    /// Creates account `first` on plan Free with this one key if there is no account yet, in one transaction.
    /// If several processes start on a new store at once, one of them succeeds. The key is the caller's, so
    /// that it can be stored safely before the account exists: no crash leaves an account whose key is lost.
    ///
    /// # Errors
    ///
    /// If the database fails.
    pub async fn create_first(
        self,
        key: &ApiKey,
        now: UnixMillis,
    ) -> Result<Option<ApiKeyRecord>, PetStoreError> {
        let (actor, name) = (self.actor.clone(), AccountName::parse(FIRST_ACCOUNT)?);
        let key = NewApiKey::new(key, None, now);
        self.store
            .transaction(move |transaction| {
                Box::pin(async move {
                    if !account::Entity::find().limit(1).all(transaction).await?.is_empty() {
                        return Ok(None);
                    }
                    let account =
                        accounts::insert(transaction, &actor, &name, Plan::Free, key.created_at).await?;
                    keys::insert(transaction, &actor, (account.id, account.name), key).await.map(Some)
                })
            })
            .await
    }

    /// Returns `true` if an account has this key, in any state.
    ///
    /// # Errors
    ///
    /// If the database fails.
    pub async fn have(self, key: &ApiKey) -> Result<bool, PetStoreError> {
        let find = api_key::Entity::find().filter(api_key::Column::Digest.eq(key.digest().0.to_vec()));
        Ok(!self.store.read(move |db| Box::pin(find.clone().all(db))).await?.is_empty())
    }
}

impl Operators<'_> {
    /// Returns `true` if an operator has this token, in any state.
    ///
    /// # Errors
    ///
    /// If the database fails.
    pub async fn have(self, token: &OperatorToken) -> Result<bool, PetStoreError> {
        let find = operator::Entity::find().filter(operator::Column::Digest.eq(token.digest().0.to_vec()));
        Ok(!self.store.read(move |db| Box::pin(find.clone().all(db))).await?.is_empty())
    }
}
