//! Table `pets`, and the tables of creations and imports.

use petstore_database::revision::Relation;
use sea_orm::{
    ActiveValue::Set,
    QueryResult, RuntimeErr,
    entity::prelude::*,
    sea_query::ArrayType,
    sqlx::{Decode, Postgres, Row, Type, postgres::PgRow},
};

use super::{NewPet, Pet, PetId, PetName, PetStatus};
use crate::errors::PetStoreError;

/// Columns in the order in which [`Model::from_columns`] reads them, for statements in text.
macro_rules! pet_columns {
    () => {
        "id, name, category_id, status"
    };
}
pub(in crate::pets) use pet_columns;

/// The columns of many pets, each as an array of PostgreSQL, as [`Model::from_arrays`] reads them.
macro_rules! pet_arrays {
    () => {
        "array_agg(id), array_agg(name), array_agg(category_id), array_agg(status)"
    };
}
pub(in crate::pets) use pet_arrays;

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
    pub(in crate::pets) fn from_columns(row: &QueryResult, first: usize) -> Result<Self, DbErr> {
        Ok(Self {
            id: row.try_get_by_index(first)?,
            name: row.try_get_by_index(first + 1)?,
            category_id: row.try_get_by_index(first + 2)?,
            status: row.try_get_by_index(first + 3)?,
        })
    }

    /// Returns the pets whose arrays begin at index `first`; none where they are NULL. Only a row of
    /// PostgreSQL has arrays.
    pub(in crate::pets) fn from_arrays(row: &QueryResult, first: usize) -> Result<Vec<Self>, DbErr> {
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

/// Statement that adds pets and the names of their creations in one round trip. It skips pets whose name is
/// taken. Two concurrent statements that add one name both see it free: one waits for the other to commit,
/// and then violates the primary key.
///
/// Identifiers are assigned in the order of the calls, since PostgreSQL assigns them after it has sorted.
/// Names are added in sorted order, so that two cores never deadlock. `OFFSET 0` keeps the planner from
/// making a join of the search for a name, which could read all names.
pub(in crate::pets) const ADD_ON_POSTGRES: &str = "WITH asked AS MATERIALIZED (\
        SELECT set_config('lock_timeout', $1, true), asked.* \
        FROM unnest($2, $3, $4, $5, $6) WITH ORDINALITY \
            AS asked (digest, created_at, name, category_id, status, number) \
        WHERE NOT EXISTS (SELECT FROM create_requests WHERE digest = asked.digest OFFSET 0)\
    ), added AS (\
        INSERT INTO pets (name, category_id, status) \
        SELECT name, category_id, nullif(status, 0) FROM asked ORDER BY number RETURNING id\
    ), matched AS (\
        SELECT number, digest, created_at, id \
        FROM (SELECT *, row_number() OVER (ORDER BY number) AS place FROM asked) AS asked \
        JOIN (SELECT id, row_number() OVER (ORDER BY id) AS place FROM added) AS added USING (place)\
    ), named AS (\
        INSERT INTO create_requests (digest, pet_id, created_at) \
        SELECT digest, id, created_at FROM matched WHERE digest <> '' ORDER BY digest\
    ) SELECT number - 1, id FROM matched";

/// Statement that adds one pet whose creation has no name, as in [`ADD_ON_POSTGRES`]. It waits for no other
/// creation, so it needs no timeout of its own.
pub(in crate::pets) const ADD_ONE_ON_POSTGRES: &str =
    "INSERT INTO pets (name, category_id, status) VALUES ($1, $2, $3) RETURNING 0::bigint, id";

/// Returns the parameters of [`ADD_ONE_ON_POSTGRES`].
pub(in crate::pets) fn new_values(pet: &NewPet) -> [Value; 3] {
    [pet.name.as_str().into(), pet.category_id.into(), pet.status.map(status_column).into()]
}

/// Returns the columns of new pets, each as an array of PostgreSQL: `$4` and the following parameters of
/// [`ADD_ON_POSTGRES`].
pub(in crate::pets) fn new_arrays<'a>(pets: impl Iterator<Item = &'a NewPet> + Clone) -> [Value; 3] {
    [
        array_value(ArrayType::String, pets.clone().map(|pet| pet.name.as_str())),
        numbers(pets.clone().map(|pet| pet.category_id)),
        array_value(ArrayType::SmallInt, pets.map(|pet| pet.status.map_or(0, status_column))),
    ]
}

/// The last identifier that SQLite has assigned.
macro_rules! last_id {
    () => {
        "SELECT max((SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'pets'), \
                    (SELECT coalesce(max(id), 0) FROM pets)) AS last_id"
    };
}

/// Transaction that adds pets on SQLite, which runs it in one call. It holds the write lock from its
/// beginning, so the result of its first search stays true. Its rows are the last identifier that was
/// assigned before, and the identifiers of the pets that were added. The distance from the first row is the
/// position of the call, counted from 1.
pub(in crate::pets) const ADD_ON_SQLITE: &str = concat!(
    "BEGIN IMMEDIATE; ",
    last_id!(),
    "; INSERT INTO create_requests (digest, pet_id, created_at) \
        SELECT unhex(value ->> 0), last_id + key + 1, value ->> 1 FROM json_each(?1), (",
    last_id!(),
    ") WHERE value ->> 0 IS NOT NULL ON CONFLICT DO NOTHING; \
    INSERT INTO pets (id, name, category_id, status) \
        SELECT last_id + key + 1, value ->> 2, value ->> 3, value ->> 4 FROM json_each(?1), (",
    last_id!(),
    ") WHERE value ->> 0 IS NULL \
        OR last_id + key + 1 = (SELECT pet_id FROM create_requests WHERE digest = unhex(value ->> 0)) \
        RETURNING id; \
    COMMIT"
);

/// Returns an element of the parameter of [`ADD_ON_SQLITE`]: a new pet, and the digest of its creation's name
/// with the time of the call.
pub(in crate::pets) fn new_json(
    digest: Option<String>,
    created_at: i64,
    pet: &NewPet,
) -> (Option<String>, i64, &str, i64, Option<i16>) {
    (digest, created_at, pet.name.as_str(), pet.category_id, pet.status.map(status_column))
}

pub(in crate::pets) fn status_column(status: PetStatus) -> i16 {
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

/// Returns the values as an array.
pub(in crate::pets) fn array_value<T: Into<Value>>(
    kind: ArrayType,
    values: impl Iterator<Item = T>,
) -> Value {
    Value::Array(kind, Some(Box::new(values.map(Into::into).collect())))
}

/// Returns the numbers as a `bigint[]`.
pub(in crate::pets) fn numbers(numbers: impl Iterator<Item = i64>) -> Value {
    array_value(ArrayType::BigInt, numbers)
}

/// Table `create_requests`.
pub(super) mod create_request {
    use sea_orm::entity::prelude::*;

    use petstore_database::revision::Relation;

    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "create_requests")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub digest: Vec<u8>,
        pub pet_id: i64,
        pub created_at: i64,
    }

    impl ActiveModelBehavior for ActiveModel {}
}

/// Table `imports`.
pub(super) mod import {
    use petstore_database::revision::Relation;
    use sea_orm::entity::prelude::*;

    use crate::pets::ImportProgress;

    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "imports")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub import_id: String,
        pub last_line: i64,
        pub created: i64,
        pub updated_at: i64,
    }

    impl ActiveModelBehavior for ActiveModel {}

    impl From<Model> for ImportProgress {
        fn from(row: Model) -> Self {
            Self { last_line: row.last_line, created: row.created }
        }
    }
}
