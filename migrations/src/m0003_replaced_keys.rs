//! The key that a rotated key replaces. A release that does not know the column leaves it empty.

use petstore_database::SchemaChange;
use sea_orm::{
    ConnectionTrait, DatabaseTransaction, DbErr,
    sea_query::{ColumnDef, Index, Table},
};

pub(crate) const CHANGE: SchemaChange =
    SchemaChange { name: "m0003_replaced_keys", up: |db| Box::pin(up(db)), down: |db| Box::pin(down(db)) };

async fn up(db: &DatabaseTransaction) -> Result<(), DbErr> {
    let mut keys = Table::alter();
    db.execute(keys.table("api_keys").add_column(ColumnDef::new("replaces").text())).await?;
    let mut successors = Index::create();
    successors.name("api_keys_replaces").table("api_keys").col("replaces").col("id");
    db.execute(&successors).await.map(drop)
}

async fn down(db: &DatabaseTransaction) -> Result<(), DbErr> {
    db.execute(Index::drop().name("api_keys_replaces").table("api_keys")).await?;
    db.execute(Table::alter().table("api_keys").drop_column("replaces")).await.map(drop)
}
