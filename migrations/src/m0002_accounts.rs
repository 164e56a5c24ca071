//! Who holds API keys, on which plan.

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
        manager.create_table(accounts()).await?;
        manager
            .create_index(
                // Serves "which accounts changed since", which every gateway asks once a second.
                Index::create().name("accounts_revision").table("accounts").col("revision").take(),
            )
            .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.drop_table(Table::drop().table("accounts").take()).await
    }
}

pub(crate) fn accounts() -> TableCreateStatement {
    Table::create()
        .table("accounts")
        .col(column::assigned_id())
        .col(ColumnDef::new("name").text().not_null().unique_key())
        .col(ColumnDef::new("plan").text().not_null())
        // Plan enterprise alone has numbers of its own.
        .col(ColumnDef::new("per_minute").big_integer().null())
        .col(ColumnDef::new("per_day").big_integer().null())
        .col(column::unix_millis("created_at").not_null())
        .col(ColumnDef::new("revision").big_integer().not_null())
        .take()
}
