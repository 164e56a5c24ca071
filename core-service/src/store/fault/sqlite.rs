//! Primary result codes of SQLite (<https://sqlite.org/rescode.html>).

use sea_orm::{DbErr, sqlx};

use super::sqlx_error;

pub(in crate::store) const PERM: u32 = 3;
pub(in crate::store) const BUSY: u32 = 5;
pub(in crate::store) const LOCKED: u32 = 6;
const NOMEM: u32 = 7;
pub(in crate::store) const READONLY: u32 = 8;
const IOERR: u32 = 10;
pub(in crate::store) const CORRUPT: u32 = 11;
const FULL: u32 = 13;
pub(in crate::store) const CANTOPEN: u32 = 14;
pub(in crate::store) const NOTADB: u32 = 26;

/// Codes that pass without a new release of this service: the file is locked, the disk is full or cannot be
/// read or written, memory is short.
const OUTAGES: [u32; 7] = [BUSY, LOCKED, NOMEM, READONLY, IOERR, FULL, CANTOPEN];

/// Returns the primary result code if the error is one of SQLite.
pub(in crate::store) fn code(error: &DbErr) -> Option<u32> {
    reported(sqlx_error(error)?)
}

fn reported(error: &sqlx::Error) -> Option<u32> {
    let sqlx::Error::Database(error) = error else { return None };
    error.try_downcast_ref::<sqlx::sqlite::SqliteError>()?;
    let extended: u32 = error.code()?.parse().ok()?;
    Some(extended & 0xff)
}

/// Returns `true` if SQLite reports that the file is damaged, or no database.
pub(super) fn is_damage(error: &sqlx::Error) -> bool {
    matches!(reported(error), Some(CORRUPT | NOTADB))
}

/// Returns `true` if the error can pass without a new release of this service; `None` if it is not an error
/// of SQLite.
pub(super) fn is_outage(error: &DbErr) -> Option<bool> {
    code(error).map(|code| OUTAGES.contains(&code))
}
