//! Kinds of errors of statements.

use std::io::ErrorKind;

use petstore_telemetry::parts::FaultCause;
use sea_orm::{
    ConnAcquireErr, DbErr, RuntimeErr, SqlErr,
    sqlx::{
        self,
        postgres::{PgDatabaseError, PgSeverity},
    },
};

/// Returns `true` if a connection was not made, or was not free, in time.
pub(super) fn is_slow_connection(error: &DbErr) -> bool {
    matches!(error, DbErr::ConnectionAcquire(ConnAcquireErr::Timeout) | DbErr::Conn(RuntimeErr::Internal(_)))
        || matches!(sqlx_error(error), Some(sqlx::Error::PoolTimedOut))
}

/// Returns `true` if the server, or PgBouncer before it, has no connection to spare.
pub(super) fn is_full(error: &sqlx::Error) -> bool {
    sqlstate(error) == Some("53300")
        || reported(error).is_some_and(|error| error.message().starts_with("no more connections allowed"))
}

/// Returns `true` if the server no longer runs a prepared statement, which has had no effect: its result type
/// was changed, or somebody dropped it.
pub(super) fn is_stale_statement(error: &sqlx::Error) -> bool {
    matches!(sqlstate(error), Some("0A000" | "26000"))
}

/// Returns `true` if this unique constraint refused the row. It has the name that PostgreSQL gives it, such
/// as `accounts_name_key`. Any other constraint refuses a row for a reason that its caller does not expect.
pub fn is_duplicate(error: &DbErr, constraint: &str) -> bool {
    let Some(sqlx::Error::Database(error)) = sqlx_error(error) else { return false };
    let column = error.message().strip_prefix("UNIQUE constraint failed: "); // SQLite names no constraint
    let of_column = column.map(|column| column.replace('.', "_") + "_key");
    error.constraint().or(of_column.as_deref()) == Some(constraint)
}

/// Returns `true` if the number of a new row is in use on PostgreSQL, or another primary key.
pub(super) fn is_number_taken(error: &DbErr) -> bool {
    let constraint = sqlx_error(error).and_then(reported).and_then(PgDatabaseError::constraint);
    code(error) == Some("23505") && constraint.is_some_and(|constraint| constraint.ends_with("_pkey"))
}

/// Returns `true` if a foreign key refused the row: the row that it refers to does not exist.
pub fn is_missing_reference(error: &DbErr) -> bool {
    matches!(error.sql_err(), Some(SqlErr::ForeignKeyConstraintViolation(_)))
}

/// Returns `true` if a retry at once, on another connection, may succeed. Either the connection was lost, or
/// the transaction lost a race against another one. In the first case it is unknown whether a write took
/// effect.
pub fn is_passing(error: &DbErr) -> bool {
    is_lost_connection(error) || is_lost_race(error) || matches!(sqlx_error(error), Some(sqlx::Error::Io(_)))
}

/// Returns `true` if the database reports that its content is damaged.
pub(super) fn is_damage(error: &sqlx::Error) -> bool {
    matches!(sqlite_code(error), Some(11 | 26)) // CORRUPT, NOTADB
        || matches!(sqlstate(error), Some("XX001" | "XX002"))
}

/// Returns the reason why the database takes no writes, if this is an error of a write that all writes may
/// meet.
pub(super) fn write_fault(error: &sqlx::Error) -> Option<FaultCause> {
    match (sqlite_result(error), sqlstate(error)) {
        (Some(result), _) if result & 0xff == 13 => Some(FaultCause::DatabaseDiskFull), // FULL
        // READONLY, but not READONLY_DBMOVED, which the watch on the file notices
        (Some(result), _) if result & 0xff == 8 && result != 1032 => Some(FaultCause::DatabaseReadOnly),
        // IOERR_WRITE, IOERR_FSYNC, IOERR_DIR_FSYNC, IOERR_TRUNCATE
        (Some(778 | 1034 | 1290 | 1546), _) => Some(FaultCause::DatabaseWritesFail),
        (_, Some("25006")) => Some(FaultCause::DatabaseReadOnly),
        (_, Some("53100")) => Some(FaultCause::DatabaseDiskFull),
        _ => None,
    }
}

/// Returns `true` if a connection could not be made because the peer hung up, or did not speak as a server.
/// Proxies do so while no server is behind them.
pub(super) fn is_hang_up(error: &sqlx::Error) -> bool {
    use ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    match error {
        sqlx::Error::Protocol(_) => true,
        sqlx::Error::Io(error) => matches!(error.kind(), ConnectionReset | UnexpectedEof | BrokenPipe),
        _ => false,
    }
}

/// Returns `true` if a statement with this error was answered completely, on a connection that stays usable.
pub(super) fn keeps_connection_usable(error: &sqlx::Error) -> bool {
    let fatal = [PgSeverity::Fatal, PgSeverity::Panic];
    matches!(error, sqlx::Error::Database(_))
        && reported(error).is_none_or(|error| !fatal.contains(&error.severity()))
}

/// Returns the message of PostgreSQL if the user lacks a privilege for the statement.
pub(super) fn missing_privilege(error: &DbErr) -> Option<&str> {
    let error = sqlx_error(error).and_then(reported)?;
    (error.code() == "42501").then(|| error.message())
}

/// Returns `true` if the server takes no writes: it is a standby, or was made read-only.
pub(super) fn is_read_only(error: &sqlx::Error) -> bool {
    sqlstate(error) == Some("25006")
}

/// Returns `true` if the database refused the statement because of its contents, or because of concurrent
/// changes. With other contents it may succeed at once.
pub fn is_refusal(error: &DbErr) -> bool {
    let is_answer = matches!(sqlx_error(error), Some(sqlx::Error::Database(_)));
    is_answer && (!is_outage(error) || is_lost_race(error))
}

/// Returns `true` if the database is unavailable, busy or full.
pub fn is_outage(error: &DbErr) -> bool {
    use sea_orm::sqlx::Error as E;
    if let DbErr::ConnectionAcquire(_) | DbErr::Conn(RuntimeErr::Internal(_)) = error {
        return true;
    }
    if let DbErr::Conn(RuntimeErr::SqlxError(error)) = error
        && (is_hang_up(error) || reported(error).is_some())
    {
        return true; // PostgreSQL is reached, and refuses the connection
    }
    if let Some(is_outage) = is_outage_of_sqlite(error).or_else(|| is_outage_of_postgres(error)) {
        return is_outage;
    }
    let Some(error) = sqlx_error(error) else { return false };
    matches!(error, E::Io(_) | E::Tls(_) | E::PoolTimedOut | E::PoolClosed | E::WorkerCrashed)
}

fn sqlx_error(error: &DbErr) -> Option<&sqlx::Error> {
    match error {
        DbErr::Conn(RuntimeErr::SqlxError(error))
        | DbErr::Exec(RuntimeErr::SqlxError(error))
        | DbErr::Query(RuntimeErr::SqlxError(error)) => Some(error),
        _ => None,
    }
}

/// Returns the primary result code (<https://sqlite.org/rescode.html>) if the error is one of SQLite.
fn sqlite_code(error: &sqlx::Error) -> Option<u32> {
    sqlite_result(error).map(|extended| extended & 0xff)
}

/// Returns the extended result code if the error is one of SQLite.
fn sqlite_result(error: &sqlx::Error) -> Option<u32> {
    let sqlx::Error::Database(error) = error else { return None };
    error.try_downcast_ref::<sqlx::sqlite::SqliteError>()?;
    error.code()?.parse().ok()
}

/// Returns `true` if another connection has locked the file.
pub(super) fn is_locked(error: &DbErr) -> bool {
    matches!(sqlx_error(error).and_then(sqlite_code), Some(5 | 6)) // BUSY, LOCKED
}

/// Returns `true` if the file or its folder may not be read or written.
pub(super) fn is_not_permitted(error: &DbErr) -> bool {
    matches!(sqlx_error(error).and_then(sqlite_code), Some(3 | 8 | 14)) // PERM, READONLY, CANTOPEN
}

/// Returns `true` if the file is damaged, or is not a database.
pub(super) fn is_no_database(error: &DbErr) -> bool {
    sqlx_error(error).is_some_and(is_damage)
}

/// Returns `true` if the error can pass without a new release of this service: the file is locked, the disk
/// is full or cannot be read or written, memory is short. Returns `None` if it is not an error of SQLite.
fn is_outage_of_sqlite(error: &DbErr) -> Option<bool> {
    let code = sqlite_code(sqlx_error(error)?)?;
    Some(matches!(code, 5 | 6 | 7 | 8 | 10 | 13 | 14)) // also NOMEM, READONLY, IOERR, FULL
}

/// Returns the `SQLSTATE` (PostgreSQL's manual, appendix A) if the error is one of PostgreSQL.
fn code(error: &DbErr) -> Option<&str> {
    sqlstate(sqlx_error(error)?)
}

fn sqlstate(error: &sqlx::Error) -> Option<&str> {
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
fn is_outage_of_postgres(error: &DbErr) -> Option<bool> {
    let code = code(error)?;
    let class = code.get(..2).unwrap_or_default();
    Some(
        matches!(class, "08" | "28" | "3D" | "40" | "53" | "57" | "58")
            || matches!(code, "25006" | "25P03" | "55P03"),
    )
}

/// Returns `true` if the connection is lost, or was never made: another one may work.
fn is_lost_connection(error: &DbErr) -> bool {
    code(error).is_some_and(|code| {
        code.starts_with("08") || matches!(code, "57P01" | "57P02" | "57P03" | "57P05" | "25P03")
    })
}

/// Returns `true` if the transaction lost against another one, and was undone as a whole.
fn is_lost_race(error: &DbErr) -> bool {
    code(error).is_some_and(|code| code.starts_with("40"))
}

/// Returns `true` if another transaction held a key of that index for too long. The server names the index in
/// the error's context.
pub fn is_key_timeout(error: &DbErr, index: &str) -> bool {
    let context = sqlx_error(error).and_then(reported).and_then(PgDatabaseError::r#where);
    code(error) == Some("55P03") && context.is_some_and(|context| context.contains(index))
}

/// Returns `true` if a lock was not free in time.
pub(super) fn is_lock_timeout(error: &DbErr) -> bool {
    code(error) == Some("55P03")
}

/// Returns `true` if the server has no such database.
pub(super) fn is_unknown_database(error: &sqlx::Error) -> bool {
    sqlstate(error) == Some("3D000")
}

#[cfg(test)]
pub(super) mod tests {
    use std::fs;

    use sea_orm::{
        ConnectionTrait,
        sqlx::{ConnectOptions, Executor, sqlite::SqliteConnectOptions},
    };

    use super::*;
    use crate::test_support::new_schema;

    fn failed(error: sqlx::Error) -> DbErr {
        DbErr::Exec(RuntimeErr::SqlxError(error.into()))
    }

    /// Returns the error of SQLite for a file with this content, or for a missing file.
    pub(crate) async fn error_of_sqlite(content: Option<&str>) -> sqlx::Error {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("petstore.db");
        if let Some(content) = content {
            fs::write(&path, content).unwrap();
        }
        match SqliteConnectOptions::new().filename(path).connect().await {
            Ok(mut connection) => connection.execute("SELECT * FROM sqlite_master").await.unwrap_err(),
            Err(error) => error,
        }
    }

    #[test]
    fn a_cut_connection_is_an_outage_that_a_retry_may_pass() {
        use ErrorKind::{BrokenPipe, ConnectionReset, NotFound, UnexpectedEof};
        let kinds = [(ConnectionReset, true), (UnexpectedEof, true), (BrokenPipe, true), (NotFound, false)];
        for (kind, is_cut) in kinds {
            let error = sqlx::Error::Io(kind.into());
            assert_eq!(is_hang_up(&error), is_cut, "{kind}");
            assert!(!keeps_connection_usable(&error) && !is_damage(&error), "{kind}");
            let error = failed(error);
            assert!(is_outage(&error) && is_passing(&error) && !is_refusal(&error), "{kind}");
        }
        let garbled = || sqlx::Error::Protocol("no server".to_owned());
        assert!(is_hang_up(&garbled()) && !is_hang_up(&sqlx::Error::PoolClosed));
        assert!(is_outage(&DbErr::Conn(RuntimeErr::SqlxError(garbled().into()))));
        assert!(!is_outage(&failed(garbled())), "it may be a bug in petstore");
        assert!(!is_outage(&DbErr::RecordNotInserted) && !is_passing(&DbErr::RecordNotInserted));
    }

    #[test]
    fn a_connection_is_slow_if_it_was_not_there_in_time() {
        let in_time =
            [failed(sqlx::Error::PoolClosed), DbErr::ConnectionAcquire(ConnAcquireErr::ConnectionClosed)];
        let late = [failed(sqlx::Error::PoolTimedOut), DbErr::ConnectionAcquire(ConnAcquireErr::Timeout)];
        assert!(late.iter().all(is_slow_connection) && !in_time.iter().any(is_slow_connection));
        assert!(in_time.iter().chain(&late).all(is_outage));
    }

    #[tokio::test]
    async fn errors_of_sqlite_are_classified_by_their_code() {
        let missing = error_of_sqlite(None).await;
        assert!(keeps_connection_usable(&missing) && !is_damage(&missing));
        let missing = failed(missing);
        assert!(is_not_permitted(&missing) && is_outage(&missing));
        assert!(!is_no_database(&missing) && !is_locked(&missing) && !is_refusal(&missing));
        let text = error_of_sqlite(Some(&"a text ".repeat(1_000))).await;
        assert!(is_damage(&text));
        let text = failed(text);
        assert!(is_no_database(&text) && is_refusal(&text));
        assert!(!is_not_permitted(&text) && !is_outage(&text) && !is_locked(&text) && !is_passing(&text));
    }

    #[tokio::test]
    async fn errors_of_postgresql_are_classified_by_their_code() {
        let database = new_schema().await;
        let server = sea_orm::Database::connect(database.url()).await.unwrap();
        for (code, properties) in [
            ("08006", "outage passing"),
            ("25006", "outage read-only"),
            ("25P03", "outage passing"),
            ("28P01", "outage"),
            ("3D000", "outage unknown"),
            ("40001", "outage passing race refusal"),
            ("42601", "refusal"),
            ("53100", "outage full"),
            ("55P03", "outage lock"),
            ("57P01", "outage passing"),
            ("XX001", "damage refusal"),
        ] {
            let raise = format!("DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '{code}'; END $$");
            let error = server.execute_unprepared(&raise).await.unwrap_err();
            let reported = sqlx_error(&error).unwrap();
            let has = [
                (is_outage(&error), "outage"),
                (is_damage(reported), "damage"),
                (is_passing(&error), "passing"),
                (is_lost_race(&error), "race"),
                (is_unknown_database(reported), "unknown"),
                (is_lock_timeout(&error), "lock"),
                (is_refusal(&error), "refusal"),
                (write_fault(reported) == Some(FaultCause::DatabaseReadOnly), "read-only"),
                (write_fault(reported) == Some(FaultCause::DatabaseDiskFull), "full"),
            ];
            let has: Vec<_> = has.iter().filter(|(has, _)| *has).map(|(_, name)| *name).collect();
            assert_eq!(has.join(" "), properties, "{code}");
            assert!(keeps_connection_usable(reported), "{code}");
            assert_eq!(is_key_timeout(&error, "inline_code_block"), code == "55P03", "{code}");
            assert!(!is_key_timeout(&error, "another_index"), "{code}");
        }
        let error =
            server.execute_unprepared("SELECT pg_terminate_backend(pg_backend_pid())").await.unwrap_err();
        assert!(!keeps_connection_usable(sqlx_error(&error).unwrap()), "{error}");
    }
}
