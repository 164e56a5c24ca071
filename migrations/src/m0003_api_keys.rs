//! API keys: never the key itself, only its digest.

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
        manager.create_table(api_keys()).await?;
        manager
            .create_index(
                Index::create().name("api_keys_account_id").table("api_keys").col("account_id").take(),
            )
            .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.drop_table(Table::drop().table("api_keys").take()).await
    }
}

pub(crate) fn api_keys() -> TableCreateStatement {
    Table::create()
        .table("api_keys")
        .col(ColumnDef::new("id").text().not_null().primary_key()) // a UUIDv7, as written in logs and lists
        .col(ColumnDef::new("account_id").big_integer().not_null())
        .col(ColumnDef::new("digest").blob().not_null().unique_key())
        .col(ColumnDef::new("prefix").text().not_null())
        .col(ColumnDef::new("last_four").text().not_null())
        .col(column::unix_millis("created_at").not_null())
        .col(column::unix_millis("expires_at").null())
        .col(column::unix_millis("revoked_at").null())
        .col(column::unix_millis("last_used_at").null())
        .foreign_key(ForeignKey::create().from("api_keys", "account_id").to("accounts", "id"))
        .take()
}
