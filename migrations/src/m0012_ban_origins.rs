//! Who imposed a ban, and what an operator says about it.

use sea_orm_migration::prelude::*;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        // Of bans that are kept already nobody knows it: most are the limiter's.
        let origin = ColumnDef::new("origin").text().not_null().default("limiter").take();
        let reason = ColumnDef::new("reason").text().take();
        for column in [origin, reason] {
            manager.alter_table(Table::alter().table("bans").add_column(column).take()).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for column in ["reason", "origin"] {
            manager.alter_table(Table::alter().table("bans").drop_column(column).take()).await?;
        }
        Ok(())
    }
}
