//! Databases with a schema.

use tokio::sync::OnceCell;

use super::{Database, PostgresServer};

/// Returns a new database of the shared server with a schema and no rows. It is a copy of one that
/// `make_schema` made, so that migrations run once for all tests of the process. All callers in a process
/// must use one schema.
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
