//! Table `pets`.

use sea_orm::{ActiveValue::Set, QueryResult, entity::prelude::*};

use crate::domain::{CategoryId, NewPet, Pet, PetId, PetName, PetStatus, PetStoreError};

/// The columns in the order in which [`Model::from_columns`] reads them, for statements in text.
macro_rules! pet_columns {
    () => {
        "id, name, category_id, status"
    };
}
pub(in crate::store) use pet_columns;

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

impl Model {
    /// The pet whose columns begin at that index.
    pub(in crate::store) fn from_columns(row: &QueryResult, first: usize) -> Result<Self, DbErr> {
        Ok(Self {
            id: row.try_get_by_index(first)?,
            name: row.try_get_by_index(first + 1)?,
            category_id: row.try_get_by_index(first + 2)?,
            status: row.try_get_by_index(first + 3)?,
        })
    }
}

/// The row to be added; the database gives it its identifier.
impl From<NewPet> for ActiveModel {
    fn from(new: NewPet) -> Self {
        Self {
            name: Set(new.name.into_string()),
            category_id: Set(new.category_id.0),
            status: Set(new.status.map(status_column)),
            ..Default::default()
        }
    }
}

pub(in crate::store) fn status_column(status: PetStatus) -> i16 {
    status.number().into()
}

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
