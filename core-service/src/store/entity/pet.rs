//! Table `pets`.

use sea_orm::{
    ActiveValue::Set,
    QueryResult, RuntimeErr,
    entity::prelude::*,
    sqlx::{Decode, Postgres, Row, Type, postgres::PgRow},
};

use super::Relation;
use crate::domain::{NewPet, Pet, PetId, PetName, PetStatus, PetStoreError};

/// Columns in the order in which [`Model::from_columns`] reads them, for statements in text.
macro_rules! pet_columns {
    () => {
        "id, name, category_id, status"
    };
}
pub(in crate::store) use pet_columns;

/// The columns of many pets, each as an array of PostgreSQL, as [`Model::from_arrays`] reads them.
macro_rules! pet_arrays {
    () => {
        "array_agg(id), array_agg(name), array_agg(category_id), array_agg(status)"
    };
}
pub(in crate::store) use pet_arrays;

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "pets")]
pub(crate) struct Model {
    #[sea_orm(primary_key)]
    pub id: i64,
    pub name: String,
    pub category_id: i64,
    pub status: Option<i16>,
}

impl ActiveModelBehavior for ActiveModel {}

impl Model {
    /// Returns the pet whose columns begin at index `first`.
    pub(in crate::store) fn from_columns(row: &QueryResult, first: usize) -> Result<Self, DbErr> {
        Ok(Self {
            id: row.try_get_by_index(first)?,
            name: row.try_get_by_index(first + 1)?,
            category_id: row.try_get_by_index(first + 2)?,
            status: row.try_get_by_index(first + 3)?,
        })
    }

    /// Returns the pets whose arrays begin at index `first`; none where they are NULL. Only a row of
    /// PostgreSQL has arrays.
    pub(in crate::store) fn from_arrays(row: &QueryResult, first: usize) -> Result<Vec<Self>, DbErr> {
        let row = row.try_as_pg_row().ok_or_else(|| DbErr::Type("no row of PostgreSQL".to_owned()))?;
        let ids: Vec<i64> = array(row, first)?;
        let names: Vec<String> = array(row, first + 1)?;
        let categories: Vec<i64> = array(row, first + 2)?;
        let statuses: Vec<Option<i16>> = array(row, first + 3)?;
        let columns = ids.into_iter().zip(names).zip(categories.into_iter().zip(statuses));
        Ok(columns
            .map(|((id, name), (category_id, status))| Self { id, name, category_id, status })
            .collect())
    }
}

fn array<'r, T>(row: &'r PgRow, index: usize) -> Result<Vec<T>, DbErr>
where
    Vec<T>: Decode<'r, Postgres> + Type<Postgres>,
{
    let array: Result<Option<Vec<T>>, _> = row.try_get(index);
    array.map(Option::unwrap_or_default).map_err(|error| DbErr::Query(RuntimeErr::SqlxError(error.into())))
}

/// Converts a new pet to the row to be added. The database assigns its identifier.
impl From<NewPet> for ActiveModel {
    fn from(new: NewPet) -> Self {
        Self {
            name: Set(new.name.into_string()),
            category_id: Set(new.category_id),
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
            category_id: row.category_id,
            status: status.transpose()?,
        })
    }
}
