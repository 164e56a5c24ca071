//! The catalogue.

use sea_orm_migration::prelude::*;

use crate::column;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.create_table(pets()).await?;
        manager
            .create_index(
                // Serves a page of one status; a page of all is served by the primary key.
                Index::create().name("pets_status_id").table("pets").col("status").col("id").take(),
            )
            .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.drop_table(Table::drop().table("pets").take()).await
    }
}

pub(crate) fn pets() -> TableCreateStatement {
    Table::create()
        .table("pets")
        .col(column::assigned_id())
        .col(ColumnDef::new("name").text().not_null())
        .col(ColumnDef::new("category_id").big_integer().not_null())
        .col(ColumnDef::new("status").small_integer().null())
        .take()
}
