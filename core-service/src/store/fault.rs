//! What went wrong in the database: `DbErr` -> domain error.

use sea_orm::{DbErr, RuntimeErr, SqlErr, sqlx};

use crate::domain::{AccountError, PetStoreError};

/// Primary result codes of SQLite that pass without a new release of ours: the file is locked, the disk is full or
/// cannot be read or written, memory is short.
const SQLITE_OUTAGES: [u32; 7] = [
    sqlite::BUSY,
    sqlite::LOCKED,
    sqlite::NOMEM,
    sqlite::READONLY,
    sqlite::IOERR,
    sqlite::FULL,
    sqlite::CANTOPEN,
];

/// Primary result codes (<https://sqlite.org/rescode.html>).
pub(super) mod sqlite {
    pub(crate) const PERM: u32 = 3;
    pub(crate) const BUSY: u32 = 5;
    pub(crate) const LOCKED: u32 = 6;
    pub(crate) const NOMEM: u32 = 7;
    pub(crate) const READONLY: u32 = 8;
    pub(crate) const IOERR: u32 = 10;
    pub(crate) const CORRUPT: u32 = 11;
    pub(crate) const FULL: u32 = 13;
    pub(crate) const CANTOPEN: u32 = 14;
    pub(crate) const NOTADB: u32 = 26;
}

impl From<DbErr> for PetStoreError {
    fn from(error: DbErr) -> Self {
        if is_outage(&error) { Self::Unavailable(error.into()) } else { Self::Bug(error.into()) }
    }
}

impl From<DbErr> for AccountError {
    fn from(error: DbErr) -> Self {
        Self::Store(error.into())
    }
}

/// Whether a unique constraint refused the row.
pub(super) fn is_duplicate(error: &DbErr) -> bool {
    matches!(error.sql_err(), Some(SqlErr::UniqueConstraintViolation(_)))
}

/// The primary result code of SQLite, if the error is one of SQLite.
pub(super) fn sqlite_code(error: &DbErr) -> Option<u32> {
    let sqlx::Error::Database(error) = sqlx_error(error)? else { return None };
    error.try_downcast_ref::<sqlx::sqlite::SqliteError>()?;
    let extended: u32 = error.code()?.parse().ok()?;
    Some(extended & 0xff)
}

fn is_outage(error: &DbErr) -> bool {
    if let DbErr::ConnectionAcquire(_) = error {
        return true;
    }
    if let Some(code) = sqlite_code(error) {
        return SQLITE_OUTAGES.contains(&code);
    }
    match sqlx_error(error) {
        Some(error) => matches!(
            error,
            sqlx::Error::Io(_)
                | sqlx::Error::PoolTimedOut
                | sqlx::Error::PoolClosed
                | sqlx::Error::WorkerCrashed
        ),
        None => false,
    }
}

fn sqlx_error(error: &DbErr) -> Option<&sqlx::Error> {
    match error {
        DbErr::Conn(RuntimeErr::SqlxError(error))
        | DbErr::Exec(RuntimeErr::SqlxError(error))
        | DbErr::Query(RuntimeErr::SqlxError(error)) => Some(error),
        _ => None,
    }
}
