//! `SQLSTATE`s of PostgreSQL (its manual's appendix A).

use sea_orm::{
    DbErr,
    sqlx::{
        self,
        postgres::{PgDatabaseError, PgSeverity},
    },
};

use super::sqlx_error;

/// Returns the `SQLSTATE` if the error is one of PostgreSQL.
fn code(error: &DbErr) -> Option<&str> {
    state(sqlx_error(error)?)
}

fn state(error: &sqlx::Error) -> Option<&str> {
    reported(error).map(PgDatabaseError::code)
}

/// Returns the error that the server reported.
fn reported(error: &sqlx::Error) -> Option<&PgDatabaseError> {
    let sqlx::Error::Database(error) = error else { return None };
    error.try_downcast_ref()
}

/// Returns `true` if the error can pass without a new release of this service; `None` if it is not an error
/// of PostgreSQL.
///
/// These errors are: connections (08), resources (53: full disk, too many connections), operators (57:
/// shutdown, cancelled by a timeout), the system (58: I/O); transactions that lost against others (40), a
/// lock that was not free in time (55P03), transactions that idled (25P03) or reached a replica (25006); and
/// changes by an administrator: passwords and permissions to log in (28), the database's name (3D).
pub(super) fn is_outage(error: &DbErr) -> Option<bool> {
    let code = code(error)?;
    let class = code.get(..2).unwrap_or_default();
    Some(
        matches!(class, "08" | "28" | "3D" | "40" | "53" | "57" | "58")
            || matches!(code, "25006" | "25P03" | "55P03"),
    )
}

/// Returns `true` if the server says that data or an index is corrupted.
pub(super) fn is_damage(error: &sqlx::Error) -> bool {
    matches!(state(error), Some("XX001" | "XX002"))
}

/// Returns `true` if the server closes the connection after this error.
pub(super) fn is_fatal(error: &sqlx::Error) -> bool {
    reported(error).is_some_and(|error| matches!(error.severity(), PgSeverity::Fatal | PgSeverity::Panic))
}

/// Returns `true` if the connection is lost, or was never made: another one may work.
pub(super) fn is_lost_connection(error: &DbErr) -> bool {
    code(error).is_some_and(|code| {
        code.starts_with("08") || matches!(code, "57P01" | "57P02" | "57P03" | "57P05" | "25P03")
    })
}

/// Returns `true` if the transaction lost against another one, and was undone as a whole.
pub(super) fn is_lost_race(error: &DbErr) -> bool {
    code(error).is_some_and(|code| code.starts_with("40"))
}

/// Returns `true` if another transaction held a key of that index for too long. The server names the index in
/// the error's context.
pub(in crate::store) fn is_key_timeout(error: &DbErr, index: &str) -> bool {
    let context = sqlx_error(error).and_then(reported).and_then(PgDatabaseError::r#where);
    code(error) == Some("55P03") && context.is_some_and(|context| context.contains(index))
}

/// Returns `true` if a lock was not free in time.
pub(in crate::store) fn is_lock_timeout(error: &DbErr) -> bool {
    code(error) == Some("55P03")
}

/// Returns `true` if the server refused user, password or address.
pub(in crate::store) fn is_refused_login(error: &sqlx::Error) -> bool {
    state(error).is_some_and(|code| code.starts_with("28"))
}

/// Returns `true` if the server has no such database.
pub(in crate::store) fn is_unknown_database(error: &sqlx::Error) -> bool {
    state(error) == Some("3D000")
}
