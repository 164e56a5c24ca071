//! Values in columns, and errors of the database, as both areas have them.

use petstore_clock::UnixMillis;
use petstore_database::DatabaseError;
use sea_orm::{DbErr, Value, sea_query::ArrayType};

use crate::domain::PetStoreError;

/// Returns the time in a column.
pub(crate) fn stored_moment(millis: i64) -> UnixMillis {
    UnixMillis(u64::try_from(millis).unwrap_or_default())
}

/// Returns the column value for a time.
pub(crate) fn moment_column(moment: UnixMillis) -> i64 {
    moment.as_i64()
}

/// Returns the values as an array of PostgreSQL.
pub(crate) fn array_value<T: Into<Value>>(kind: ArrayType, values: impl Iterator<Item = T>) -> Value {
    Value::Array(kind, Some(Box::new(values.map(Into::into).collect())))
}

/// Returns the numbers as a `bigint[]`.
pub(crate) fn numbers(numbers: impl Iterator<Item = i64>) -> Value {
    array_value(ArrayType::BigInt, numbers)
}

impl From<DbErr> for PetStoreError {
    fn from(error: DbErr) -> Self {
        DatabaseError::from(error).into()
    }
}

impl From<DatabaseError> for PetStoreError {
    fn from(error: DatabaseError) -> Self {
        match error {
            DatabaseError::Unavailable(cause) => Self::Unavailable(cause),
            DatabaseError::Failed(error) => Self::Bug(error.into()),
        }
    }
}
