//! A connection, and the view that a job has of it.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use sea_orm::{
    ConnectionTrait, DbBackend, DbErr, ExecResult, QueryResult, RuntimeErr, Statement, metric,
    prelude::async_trait,
    sea_query::Values,
    sqlx::{
        self, AssertSqlSafe, ConnectOptions, Connection, Executor,
        postgres::{PgConnectOptions, PgConnection},
        sqlite::{SqliteConnectOptions, SqliteConnection},
    },
};
use sea_query_sqlx::SqlxValues;
use tokio::sync::Mutex;

use super::{Observer, Settings};
use crate::fault;

/// Target of a connection, with its options.
pub(crate) enum Target {
    /// A server, and the statement that sets parameters of a session. They are no startup parameters, because
    /// PgBouncer refuses or ignores those.
    Postgres(Box<PgConnectOptions>, String),
    Sqlite(Box<SqliteConnectOptions>),
}

impl Target {
    pub(super) fn backend(&self) -> DbBackend {
        match self {
            Self::Postgres(..) => DbBackend::Postgres,
            Self::Sqlite(_) => DbBackend::Sqlite,
        }
    }

    pub(super) async fn connect(&self) -> Result<Driver, sqlx::Error> {
        let mut driver = match self {
            Self::Postgres(options, _) => Driver::Postgres(options.connect().await?),
            Self::Sqlite(options) => Driver::Sqlite(options.connect().await?),
        };
        self.set_up(&mut driver).await?;
        Ok(driver)
    }

    /// Sets the parameters of a session, which may have those of another use.
    pub(super) async fn set_up(&self, driver: &mut Driver) -> Result<(), sqlx::Error> {
        match self {
            Self::Postgres(_, setup) => driver.send(setup).await.map(drop),
            Self::Sqlite(_) => Ok(()),
        }
    }
}

/// A connection of sqlx, outside of any pool.
pub(crate) enum Driver {
    Postgres(PgConnection),
    Sqlite(SqliteConnection),
}

/// Evaluates the expression for the connection of either kind.
macro_rules! on_either {
    ($driver:expr, $connection:ident => $result:expr) => {
        match $driver {
            Driver::Postgres($connection) => $result,
            Driver::Sqlite($connection) => $result,
        }
    };
}

impl Driver {
    /// Returns all rows. No method of sqlx that fetches only one row is used: on SQLite they reset the
    /// statement after the row, which commits it, and ignore the outcome.
    pub(super) async fn rows(&mut self, statement: &Statement) -> Result<Vec<QueryResult>, sqlx::Error> {
        let (sql, values) = parts(statement);
        on_either!(self, connection => {
            let rows = sqlx::query_with(sql, values).fetch_all(connection).await?;
            Ok(rows.into_iter().map(QueryResult::from).collect())
        })
    }

    pub(super) async fn execute(&mut self, statement: &Statement) -> Result<ExecResult, sqlx::Error> {
        let (sql, values) = parts(statement);
        on_either!(self, connection => Ok(sqlx::query_with(sql, values).execute(connection).await?.into()))
    }

    /// Sends a statement without preparing it.
    pub(super) async fn send(&mut self, sql: &str) -> Result<ExecResult, sqlx::Error> {
        let sql = AssertSqlSafe(sql.to_owned());
        on_either!(self, connection => Ok(connection.execute(sql).await?.into()))
    }

    pub(super) async fn ping(&mut self) -> Result<(), sqlx::Error> {
        on_either!(self, connection => connection.ping().await)
    }

    pub(super) async fn close(self) -> Result<(), sqlx::Error> {
        on_either!(self, connection => connection.close().await)
    }
}

/// Returns the text and the values. All values are bound: the text holds placeholders.
fn parts(statement: &Statement) -> (AssertSqlSafe<&str>, SqlxValues) {
    let values = statement.values.clone().unwrap_or_else(|| Values(Vec::new()));
    (AssertSqlSafe(statement.sql.as_str()), SqlxValues(values))
}

/// A connection, lent to one job by its owner.
pub struct Session {
    /// The connection, locked only by that job.
    pub(super) driver: Mutex<Driver>,
    settings: Arc<Settings>,
    observer: Option<Observer>,
    /// `true` while it is unknown what the connection is doing, or which state it is in.
    is_in_doubt: AtomicBool,
    /// `true` if a statement of this job has failed.
    pub(super) has_failed: AtomicBool,
    /// `true` if the server has refused a write of this job because it takes none.
    pub(super) is_read_only: AtomicBool,
    is_in_transaction: AtomicBool,
    /// `true` if a transaction failed because statements have to be prepared again.
    has_stale_statements: AtomicBool,
}

impl Session {
    pub(super) fn new(driver: Driver, settings: Arc<Settings>) -> Self {
        Self {
            driver: Mutex::new(driver),
            settings,
            observer: None,
            is_in_doubt: AtomicBool::new(false),
            has_failed: AtomicBool::new(false),
            is_read_only: AtomicBool::new(false),
            is_in_transaction: AtomicBool::new(false),
            has_stale_statements: AtomicBool::new(false),
        }
    }

    /// Prepares for the next job.
    pub(super) fn begin_job(&mut self, observer: Option<Observer>) {
        self.observer = observer;
        *self.has_failed.get_mut() = false;
        *self.is_read_only.get_mut() = false;
        *self.has_stale_statements.get_mut() = false;
    }

    /// Returns `true` if the connection can be used again: everything sent was answered, and every
    /// transaction has ended.
    pub(super) fn is_usable(&self) -> bool {
        !self.is_in_doubt.load(Ordering::Relaxed)
    }

    pub(super) async fn begin(&self) -> Result<(), DbErr> {
        let begin = match self.get_database_backend() {
            DbBackend::Postgres => "BEGIN",
            // Takes the write lock at once. Later, another process could have written in between.
            _ => "BEGIN IMMEDIATE",
        };
        self.send_control(begin).await
    }

    /// Commits the transaction.
    ///
    /// # Errors
    ///
    /// If the commit fails, or a statement has failed before: PostgreSQL would undo the whole transaction and
    /// report no error.
    pub(super) async fn commit(&self) -> Result<(), DbErr> {
        if self.has_failed.load(Ordering::Relaxed) {
            self.roll_back().await;
            return Err(DbErr::Custom(
                "a transaction in which a statement failed was to be committed".into(),
            ));
        }
        self.send_control("COMMIT").await
    }

    /// Rolls the transaction back. If that fails, the connection is closed, which has the same effect.
    pub(super) async fn roll_back(&self) {
        if self.is_usable() {
            let _ = self.send_control("ROLLBACK").await; // see above
        }
    }

    /// Begins or ends a transaction. If that fails, it is unknown whether there is one.
    async fn send_control(&self, sql: &'static str) -> Result<(), DbErr> {
        let mut driver = self.driver.lock().await;
        self.start()?;
        let result = driver.send(sql).await;
        self.is_in_transaction.store(sql.starts_with("BEGIN"), Ordering::Relaxed);
        match &result {
            Ok(_) => self.is_in_doubt.store(false, Ordering::Relaxed),
            Err(error) => self.settings.health.record(error),
        }
        result.map(drop).map_err(query_error)
    }

    /// Returns `true` if the last transaction failed because its statements were stale. They are prepared
    /// again, so that it can be repeated.
    pub(super) async fn has_prepared_again(&self) -> bool {
        if !self.has_stale_statements.swap(false, Ordering::Relaxed) || !self.is_usable() {
            return false;
        }
        self.has_failed.store(false, Ordering::Relaxed);
        self.is_in_doubt.store(true, Ordering::Relaxed);
        let is_prepared = self.prepare_again(&mut *self.driver.lock().await).await.is_ok();
        self.is_in_doubt.store(!is_prepared, Ordering::Relaxed);
        is_prepared
    }

    /// Forgets the prepared statements. Who dropped them may have reset the session's parameters too.
    async fn prepare_again(&self, driver: &mut Driver) -> Result<(), sqlx::Error> {
        on_either!(driver, connection => connection.clear_cached_statements().await)?;
        self.settings.target.set_up(driver).await
    }

    /// Returns `true` if this is the result of a stale statement outside of a transaction, which is to be
    /// sent again.
    async fn is_to_repeat<T>(&self, driver: &mut Driver, result: &Result<T, sqlx::Error>) -> bool {
        if !result.as_ref().is_err_and(fault::is_stale_statement) {
            return false;
        }
        let is_in_transaction = self.is_in_transaction.load(Ordering::Relaxed);
        self.has_stale_statements.store(is_in_transaction, Ordering::Relaxed);
        if !is_in_transaction {
            let _ = self.prepare_again(driver).await; // after a failure, the statement fails too
        }
        !is_in_transaction
    }

    /// Returns the rows of a text that begins and ends a transaction and holds all its statements. SQLite
    /// runs it in one call.
    ///
    /// # Errors
    ///
    /// If a statement fails: the error of the first one. The whole transaction is undone.
    pub async fn transact(&self, text: Statement) -> Result<Vec<QueryResult>, DbErr> {
        let result = self.query_all_raw(text).await;
        if result.is_err() {
            self.roll_back().await;
        }
        result
    }

    /// Marks the connection as in doubt before something is sent. It stays so until the answer has arrived,
    /// even if the job is dropped.
    fn start(&self) -> Result<(), DbErr> {
        if self.is_in_doubt.swap(true, Ordering::Relaxed) {
            return Err(query_error(sqlx::Error::Io(io::Error::other("the connection is given up"))));
        }
        Ok(())
    }

    /// Records the outcome of a statement.
    fn finish_statement<T>(&self, result: &Result<T, sqlx::Error>) {
        let is_usable = match result {
            Ok(_) => true,
            Err(error) => {
                self.has_failed.store(true, Ordering::Relaxed);
                if fault::is_read_only(error) {
                    self.is_read_only.store(true, Ordering::Relaxed);
                }
                self.settings.health.record(error);
                fault::keeps_connection_usable(error)
            }
        };
        if is_usable {
            self.is_in_doubt.store(false, Ordering::Relaxed);
        }
    }

    fn observe<T>(&self, started: Instant, statement: &Statement, result: &Result<T, sqlx::Error>) {
        if let Some(observer) = &self.observer {
            observer(&metric::Info { elapsed: started.elapsed(), statement, failed: result.is_err() });
        }
    }
}

#[cfg(any(test, feature = "testing"))]
impl Session {
    /// Calls the function at every step of SQLite's virtual machine.
    ///
    /// # Panics
    ///
    /// On another database.
    #[expect(clippy::panic, clippy::unwrap_used, reason = "a test that cannot go on fails by panicking")]
    pub async fn on_each_step(&self, call: impl Fn() + Send + 'static) {
        let mut driver = self.driver.lock().await;
        let Driver::Sqlite(connection) = &mut *driver else { panic!("SQLite counts steps") };
        connection.lock_handle().await.unwrap().set_progress_handler(1, move || {
            call();
            true
        });
    }
}

#[async_trait::async_trait]
impl ConnectionTrait for Session {
    fn get_database_backend(&self) -> DbBackend {
        self.settings.target.backend()
    }

    async fn execute_raw(&self, statement: Statement) -> Result<ExecResult, DbErr> {
        let mut driver = self.driver.lock().await;
        self.start()?;
        let started = Instant::now();
        let mut result = driver.execute(&statement).await;
        if self.is_to_repeat(&mut driver, &result).await {
            result = driver.execute(&statement).await;
        }
        self.finish_statement(&result);
        self.observe(started, &statement, &result);
        result.map_err(|error| DbErr::Exec(RuntimeErr::SqlxError(error.into())))
    }

    async fn execute_unprepared(&self, sql: &str) -> Result<ExecResult, DbErr> {
        let mut driver = self.driver.lock().await;
        self.start()?;
        let result = driver.send(sql).await;
        self.finish_statement(&result);
        result.map_err(|error| DbErr::Exec(RuntimeErr::SqlxError(error.into())))
    }

    async fn query_one_raw(&self, statement: Statement) -> Result<Option<QueryResult>, DbErr> {
        Ok(self.query_all_raw(statement).await?.into_iter().next())
    }

    async fn query_all_raw(&self, statement: Statement) -> Result<Vec<QueryResult>, DbErr> {
        let mut driver = self.driver.lock().await;
        self.start()?;
        let started = Instant::now();
        let mut result = driver.rows(&statement).await;
        if self.is_to_repeat(&mut driver, &result).await {
            result = driver.rows(&statement).await;
        }
        self.finish_statement(&result);
        self.observe(started, &statement, &result);
        result.map_err(query_error)
    }
}

fn query_error(error: sqlx::Error) -> DbErr {
    DbErr::Query(RuntimeErr::SqlxError(error.into()))
}
