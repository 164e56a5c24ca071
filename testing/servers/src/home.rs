//! Place for the database of one test.

use tempfile::TempDir;

use crate::{
    Engine,
    servers::{Database, database_with_schema},
};

/// Location of a database on the engine of this run. A folder is removed when this handle is dropped.
#[derive(Debug)]
pub enum Home {
    /// Folder of a SQLite file.
    Folder(TempDir),
    /// Database of a PostgreSQL server.
    Database(Database),
}

impl Home {
    /// Creates a database with a schema and no rows, or an empty folder: a SQLite file gets its schema when
    /// it is opened. All callers in a process must use one schema.
    pub async fn new(make_schema: impl AsyncFnOnce(&Database)) -> Self {
        match Engine::of_this_run() {
            Engine::Sqlite => Self::Folder(tempfile::tempdir().expect("a folder")),
            Engine::Postgres => Self::Database(database_with_schema(make_schema).await),
        }
    }

    /// Returns the URL of the database.
    pub fn url(&self) -> String {
        match self {
            Self::Folder(folder) => format!("sqlite://{}", folder.path().join("petstore.db").display()),
            Self::Database(database) => database.url(),
        }
    }
}
