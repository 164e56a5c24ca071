//! Databases with a schema.

use tokio::sync::OnceCell;

use super::{Database, PostgresServer};

/// A new database of the shared server with a schema and nothing in it: a copy of one that `make_schema`
/// made, so that migrations run once for all tests of the process. All callers in a process have to mean the
/// same schema.
pub async fn database_with_schema(make_schema: impl AsyncFnOnce(&Database)) -> Database {
    static TEMPLATE: OnceCell<Database> = OnceCell::const_new();
    let server = PostgresServer::shared().await;
    let template = TEMPLATE
        .get_or_init(async || {
            let template = server.database().await;
            make_schema(&template).await;
            template
        })
        .await;
    server.database_like(template).await
}
