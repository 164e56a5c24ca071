//! Table `accounts`.

use petstore_clock::UnixMillis;
use sea_orm::entity::prelude::*;

use crate::{
    accounts::{Account, AccountId, AccountName, Plan, Remark, Suspension},
    errors::PetStoreError,
};

#[sea_orm::model]
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "accounts")]
pub struct Model {
    #[sea_orm(primary_key)]
    pub id: i64,
    pub name: String,
    pub plan: String,
    pub per_minute: Option<i64>,
    pub per_day: Option<i64>,
    pub created_at: i64,
    pub revision: i64,
    pub suspended_at: Option<i64>,
    pub suspend_reason: Option<String>,
}

impl ActiveModelBehavior for ActiveModel {}

/// Returns the plan in these columns.
pub(crate) fn stored_plan(name: &str, limits: [Option<i64>; 2]) -> Result<Plan, PetStoreError> {
    let [per_minute, per_day] =
        limits.map(|limit| limit.map(|number| u64::try_from(number).unwrap_or_default()));
    Plan::parse(name, per_minute, per_day)
        .map_err(|violations| PetStoreError::Bug(format!("a stored plan is not valid: {violations}").into()))
}

impl TryFrom<Model> for Account {
    type Error = PetStoreError;

    fn try_from(row: Model) -> Result<Self, Self::Error> {
        Ok(Self {
            id: AccountId(row.id),
            plan: stored_plan(&row.plan, [row.per_minute, row.per_day])?,
            name: AccountName::stored(row.name),
            created_at: UnixMillis::stored(row.created_at),
            revision: row.revision,
            suspension: row.suspended_at.map(|since| Suspension {
                since: UnixMillis::stored(since),
                reason: row.suspend_reason.map(Remark::stored),
            }),
        })
    }
}
