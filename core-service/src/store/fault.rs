//! Conversion of database errors (`DbErr`) to domain errors.

use std::io::ErrorKind;

use sea_orm::{ConnAcquireErr, DbErr, RuntimeErr, SqlErr, sqlx};

use crate::domain::PetStoreError;

pub(super) mod postgres;
pub(super) mod sqlite;

impl From<DbErr> for PetStoreError {
    fn from(error: DbErr) -> Self {
        if is_outage(&error) { Self::Unavailable(error.into()) } else { Self::Bug(error.into()) }
    }
}

/// Returns `true` if a connection was not made, or was not free, in time.
pub(super) fn is_slow_connection(error: &DbErr) -> bool {
    matches!(error, DbErr::ConnectionAcquire(ConnAcquireErr::Timeout))
        || matches!(sqlx_error(error), Some(sqlx::Error::PoolTimedOut))
}

/// Returns `true` if a unique constraint refused the row.
pub(super) fn is_duplicate(error: &DbErr) -> bool {
    matches!(error.sql_err(), Some(SqlErr::UniqueConstraintViolation(_)))
}

/// Returns `true` if a retry at once, on another connection, may succeed. Either the connection was lost, or
/// the transaction lost a race against another one. In the first case it is unknown whether a write took
/// effect.
pub(super) fn is_passing(error: &DbErr) -> bool {
    postgres::is_lost_connection(error)
        || postgres::is_lost_race(error)
        || matches!(sqlx_error(error), Some(sqlx::Error::Io(_)))
}

/// Returns `true` if the database calls its own content damaged.
pub(super) fn is_damage(error: &sqlx::Error) -> bool {
    sqlite::is_damage(error) || postgres::is_damage(error)
}

/// Returns `true` if a connection could not be made because the peer hung up, or did not speak as a server.
/// Proxies do so while no server is behind them.
pub(super) fn is_hang_up(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Protocol(_) => true,
        sqlx::Error::Io(error) => {
            matches!(
                error.kind(),
                ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe
            )
        }
        _ => false,
    }
}

/// Returns `true` if a statement with this error was answered completely, on a connection that stays usable.
pub(super) fn keeps_connection_usable(error: &sqlx::Error) -> bool {
    matches!(error, sqlx::Error::Database(_)) && !postgres::is_fatal(error)
}

/// Returns `true` if the database refused the statement because of its contents, or because of concurrent
/// changes. With other contents it may succeed at once.
pub(super) fn is_refusal(error: &DbErr) -> bool {
    let is_answer = matches!(sqlx_error(error), Some(sqlx::Error::Database(_)));
    is_answer && (!is_outage(error) || postgres::is_lost_race(error))
}

/// Returns `true` if the database is unavailable, busy or full.
pub(super) fn is_outage(error: &DbErr) -> bool {
    if let DbErr::ConnectionAcquire(_) = error {
        return true;
    }
    if let DbErr::Conn(RuntimeErr::SqlxError(error)) = error
        && is_hang_up(error)
    {
        return true;
    }
    if let Some(is_outage) = sqlite::is_outage(error).or_else(|| postgres::is_outage(error)) {
        return is_outage;
    }
    match sqlx_error(error) {
        Some(error) => matches!(
            error,
            sqlx::Error::Io(_)
                | sqlx::Error::Tls(_)
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
