//! Table `operators`.

use sea_orm::entity::prelude::*;

use super::account::stored_moment;
use crate::domain::{Operator, OperatorName, PetStoreError, Role};

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "operators")]
pub(crate) struct Model {
    #[sea_orm(primary_key)]
    pub id: i64,
    pub name: String,
    pub role: String,
    pub digest: Vec<u8>,
    pub last_four: String,
    pub created_at: i64,
    pub revoked_at: Option<i64>,
    pub last_used_at: Option<i64>,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl TryFrom<Model> for Operator {
    type Error = PetStoreError;

    fn try_from(row: Model) -> Result<Self, Self::Error> {
        let role = Role::ALL.into_iter().find(|role| role.name() == row.role);
        let bug = || PetStoreError::Bug(format!("operator {} has the role {}", row.name, row.role).into());
        Ok(Self {
            role: role.ok_or_else(bug)?,
            name: OperatorName::stored(row.name),
            last_four: Some(row.last_four),
            created_at: stored_moment(row.created_at),
            revoked_at: row.revoked_at.map(stored_moment),
            last_used_at: row.last_used_at.map(stored_moment),
        })
    }
}
