//! The requests that a key may make, and the addresses that may use it. Cores of 1.0.0 ignore both columns.

use petstore_database::SchemaChange;
use sea_orm::{
    ConnectionTrait, DatabaseTransaction, DbErr,
    sea_query::{ColumnDef, Table},
};

pub(crate) const CHANGE: SchemaChange =
    SchemaChange { name: "m0002_scope_of_keys", up: |db| Box::pin(up(db)), down: |db| Box::pin(down(db)) };

/// `access` is `read`, or NULL for full access; `allowed_addresses` has blocks, separated by commas, or is
/// NULL.
const COLUMNS: [&str; 2] = ["access", "allowed_addresses"];

async fn up(db: &DatabaseTransaction) -> Result<(), DbErr> {
    for column in COLUMNS {
        db.execute(Table::alter().table("api_keys").add_column(ColumnDef::new(column).text())).await?;
    }
    Ok(())
}

async fn down(db: &DatabaseTransaction) -> Result<(), DbErr> {
    for column in COLUMNS {
        db.execute(Table::alter().table("api_keys").drop_column(column)).await?;
    }
    Ok(())
}
