//! Since when an account is suspended, and why; what operators call a key.

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
        for (table, column) in [
            ("accounts", column::unix_millis("suspended_at")),
            ("accounts", ColumnDef::new("suspend_reason").text().take()),
            ("api_keys", ColumnDef::new("label").text().take()),
        ] {
            manager.alter_table(Table::alter().table(table).add_column(column).take()).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for (table, column) in
            [("api_keys", "label"), ("accounts", "suspend_reason"), ("accounts", "suspended_at")]
        {
            manager.alter_table(Table::alter().table(table).drop_column(column).take()).await?;
        }
        Ok(())
    }
}
