//! Rehearsals of the removal of getPet. A release that does not know the table serves on.

use petstore_database::SchemaChange;
use sea_orm::{
    ConnectionTrait, DatabaseTransaction, DbErr,
    sea_query::{ColumnDef, Table},
};

pub(crate) const CHANGE: SchemaChange =
    SchemaChange { name: "m0004_brownouts", up: |db| Box::pin(up(db)), down: |db| Box::pin(down(db)) };

async fn up(db: &DatabaseTransaction) -> Result<(), DbErr> {
    let mut brownouts = Table::create();
    brownouts
        .table("brownouts")
        .col(ColumnDef::new("id").big_integer().not_null().primary_key().auto_increment())
        .col(ColumnDef::new("account_id").big_integer()) // NULL: every account
        .col(ColumnDef::new("starts_at").big_integer().not_null())
        .col(ColumnDef::new("ends_at").big_integer().not_null());
    db.execute(&brownouts).await.map(drop)
}

async fn down(db: &DatabaseTransaction) -> Result<(), DbErr> {
    db.execute(&Table::drop().table("brownouts").take()).await.map(drop)
}
