//! Expiry of operators' tokens, and when and from where a session was opened. A release that does not know
//! the columns leaves them empty.

use petstore_database::SchemaChange;
use sea_orm::{
    ConnectionTrait, DatabaseTransaction, DbErr,
    sea_query::{ColumnDef, Table},
};

pub(crate) const CHANGE: SchemaChange =
    SchemaChange { name: "m0006_ends_of_tokens", up: |db| Box::pin(up(db)), down: |db| Box::pin(down(db)) };

async fn up(db: &DatabaseTransaction) -> Result<(), DbErr> {
    let add = |table: &'static str, column| Table::alter().table(table).add_column(column).take();
    db.execute(&add("operators", ColumnDef::new("expires_at").big_integer().take())).await?;
    db.execute(&add("operator_sessions", ColumnDef::new("opened_at").big_integer().take())).await?;
    db.execute(&add("operator_sessions", ColumnDef::new("client_address").text().take())).await.map(drop)
}

async fn down(db: &DatabaseTransaction) -> Result<(), DbErr> {
    let drop_column =
        |table: &'static str, column: &'static str| Table::alter().table(table).drop_column(column).take();
    db.execute(&drop_column("operator_sessions", "client_address")).await?;
    db.execute(&drop_column("operator_sessions", "opened_at")).await?;
    db.execute(&drop_column("operators", "expires_at")).await.map(drop)
}
