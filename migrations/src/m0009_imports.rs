//! How far imports have come: so that no line of one is added twice.

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
        manager.create_table(imports()).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.drop_table(Table::drop().table("imports").take()).await
    }
}

/// One row for each import, kept for good: a file that was imported once is not imported again by mistake.
pub(crate) fn imports() -> TableCreateStatement {
    Table::create()
        .table("imports")
        .col(ColumnDef::new("import_id").text().not_null().primary_key())
        .col(ColumnDef::new("last_line").big_integer().not_null())
        .col(ColumnDef::new("created").big_integer().not_null())
        .col(column::unix_millis("updated_at").not_null())
        .take()
}
