//! Bans of keys: the last one of each, until a day after its end.

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
        manager.create_table(bans()).await?;
        manager
            .create_index(
                // Serves forgetting what is over, and the list of what is in force.
                Index::create().name("bans_ends_at").table("bans").col("ends_at").take(),
            )
            .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.drop_table(Table::drop().table("bans").take()).await
    }
}

pub(crate) fn bans() -> TableCreateStatement {
    Table::create()
        .table("bans")
        .col(ColumnDef::new("key_id").text().not_null().primary_key())
        .col(column::unix_millis("imposed_at").not_null())
        // Equal to imposed_at: the key's bans were lifted then.
        .col(column::unix_millis("ends_at").not_null())
        .foreign_key(ForeignKey::create().from("bans", "key_id").to("api_keys", "id"))
        .take()
}
