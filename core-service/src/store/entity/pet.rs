//! Table `pets`.

use sea_orm::entity::prelude::*;

use crate::domain::{CategoryId, Pet, PetId, PetName, PetStatus, PetStoreError};

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "pets")]
pub(crate) struct Model {
    #[sea_orm(primary_key)]
    pub id: i64,
    pub name: String,
    pub category_id: i64,
    pub status: Option<i16>,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl TryFrom<Model> for Pet {
    type Error = PetStoreError;

    fn try_from(row: Model) -> Result<Self, Self::Error> {
        let status = row.status.map(|number| {
            PetStatus::from_number(number)
                .ok_or_else(|| PetStoreError::Bug(format!("pet {} has the status {number}", row.id).into()))
        });
        Ok(Self {
            id: PetId(row.id),
            name: PetName::stored(row.name),
            category_id: CategoryId(row.category_id),
            status: status.transpose()?,
        })
    }
}
