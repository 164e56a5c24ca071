//! Which database the tests of a run use where they do not say.

/// What keeps the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// A file.
    Sqlite,
    /// A server.
    Postgres,
}

impl Engine {
    /// Each of them, for tests that run on all.
    pub const ALL: [Self; 2] = [Self::Sqlite, Self::Postgres];

    /// The one that `PETSTORE_TEST_ENGINE` names: `sqlite`, also when it is not set, or `postgres`.
    ///
    /// Panics when it names another one.
    #[must_use]
    pub fn of_this_run() -> Self {
        match std::env::var("PETSTORE_TEST_ENGINE").as_deref() {
            Err(_) | Ok("" | "sqlite") => Self::Sqlite,
            Ok("postgres") => Self::Postgres,
            Ok(other) => panic!("PETSTORE_TEST_ENGINE must be sqlite or postgres, and not {other}"),
        }
    }
}
