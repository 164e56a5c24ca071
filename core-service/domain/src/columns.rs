//! Times in columns, and errors of the database, as every area has them.

use petstore_clock::UnixMillis;
use petstore_database::DatabaseError;
use sea_orm::DbErr;

use crate::PetStoreError;

/// Returns the time in a column.
pub fn stored_moment(millis: i64) -> UnixMillis {
    UnixMillis(u64::try_from(millis).unwrap_or_default())
}

/// Returns the column value for a time.
pub fn moment_column(moment: UnixMillis) -> i64 {
    moment.as_i64()
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
            error @ DatabaseError::NumberTaken(_) => Self::Bug(error.into()),
        }
    }
}
