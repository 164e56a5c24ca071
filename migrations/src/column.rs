//! Columns that several tables have.

use sea_orm_migration::prelude::*;

/// An identifier that the database assigns, upward from 1, and never assigns again: `AUTOINCREMENT` on
/// SQLite, an identity column on PostgreSQL.
pub(crate) fn assigned_id() -> ColumnDef {
    ColumnDef::new("id").big_integer().not_null().auto_increment().primary_key().take()
}

/// A moment: milliseconds since the Unix epoch.
pub(crate) fn unix_millis(name: &'static str) -> ColumnDef {
    ColumnDef::new(name).big_integer().take()
}
