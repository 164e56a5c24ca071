//! Table `api_keys`.

use petstore_caller::api_key::Environment;
use petstore_clock::UnixMillis;
use sea_orm::entity::prelude::*;

use crate::{
    accounts::{AccountId, AccountName, ApiKeyRecord, KeyScope, Remark},
    errors::PetStoreError,
};

#[sea_orm::model]
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "api_keys")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: String,
    pub account_id: i64,
    pub digest: Vec<u8>,
    pub prefix: String,
    pub last_four: String,
    pub created_at: i64,
    pub expires_at: Option<i64>,
    pub revoked_at: Option<i64>,
    pub last_used_at: Option<i64>,
    pub label: Option<String>,
    pub access: Option<String>,
    pub allowed_addresses: Option<String>,
    pub replaces: Option<String>,
    #[sea_orm(belongs_to, from = "account_id", to = "id")]
    pub account: BelongsTo<super::account::Entity>,
}

impl ActiveModelBehavior for ActiveModel {}

/// Returns the row as a list shows it, with the name of its account.
pub(crate) fn record(row: Model, account: AccountName) -> Result<ApiKeyRecord, PetStoreError> {
    let environment = Environment::ALL.into_iter().find(|environment| environment.key_prefix() == row.prefix);
    let scope = KeyScope::stored(row.access.as_deref(), row.allowed_addresses.as_deref());
    let bug = |what| PetStoreError::Bug(format!("key {} has {what}", row.id).into());
    Ok(ApiKeyRecord {
        id: row.id.parse().map_err(|_| bug("an identifier that is not a UUID"))?,
        account,
        account_id: AccountId(row.account_id),
        label: row.label.map(Remark::stored),
        scope: scope.ok_or_else(|| bug("malformed addresses"))?,
        environment: environment.ok_or_else(|| bug("an unknown prefix"))?,
        last_four: row.last_four,
        created_at: UnixMillis::stored(row.created_at),
        expires_at: row.expires_at.map(UnixMillis::stored),
        revoked_at: row.revoked_at.map(UnixMillis::stored),
        last_used_at: row.last_used_at.map(UnixMillis::stored),
        replaces: row.replaces.and_then(|id| id.parse().ok()),
    })
}
