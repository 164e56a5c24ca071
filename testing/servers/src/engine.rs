//! Default database of the tests of a run.

/// Database that keeps the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// SQLite, in a file.
    Sqlite,
    /// PostgreSQL, a server.
    Postgres,
}

impl Engine {
    /// All engines, for tests that run on each.
    pub const ALL: [Self; 2] = [Self::Sqlite, Self::Postgres];

    /// Returns the engine that `PETSTORE_TEST_ENGINE` names: `postgres`, or `sqlite`, which is the default.
    ///
    /// Panics if it names another one.
    pub fn of_this_run() -> Self {
        match std::env::var("PETSTORE_TEST_ENGINE").as_deref() {
            Err(_) | Ok("" | "sqlite") => Self::Sqlite,
            Ok("postgres") => Self::Postgres,
            Ok(other) => panic!("PETSTORE_TEST_ENGINE must be sqlite or postgres, and not {other}"),
        }
    }
}
