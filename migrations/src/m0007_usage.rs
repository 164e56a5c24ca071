//! What accounts asked for, by UTC day, and which reports of it were counted.

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
        manager.create_table(usage_days()).await?;
        manager
            .create_index(
                // Serves forgetting old days; an account's days are served by the primary key.
                Index::create().name("usage_days_day").table("usage_days").col("day").take(),
            )
            .await?;
        manager.create_table(usage_reporters()).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.drop_table(Table::drop().table("usage_reporters").take()).await?;
        manager.drop_table(Table::drop().table("usage_days").take()).await
    }
}

/// No foreign key to the account: one unknown account must not make a gateway's whole report fail for ever.
pub(crate) fn usage_days() -> TableCreateStatement {
    Table::create()
        .table("usage_days")
        .col(ColumnDef::new("account_id").big_integer().not_null())
        .col(ColumnDef::new("day").big_integer().not_null()) // days since 1970-01-01
        .col(ColumnDef::new("succeeded").big_integer().not_null())
        .col(ColumnDef::new("client_errors").big_integer().not_null())
        .col(ColumnDef::new("refused").big_integer().not_null())
        .col(ColumnDef::new("server_errors").big_integer().not_null())
        .col(ColumnDef::new("get_pet").big_integer().not_null())
        .primary_key(Index::create().col("account_id").col("day"))
        .take()
}

pub(crate) fn usage_reporters() -> TableCreateStatement {
    Table::create()
        .table("usage_reporters")
        .col(ColumnDef::new("id").text().not_null().primary_key()) // a gateway's run
        .col(ColumnDef::new("last_report").big_integer().not_null()) // its number
        .col(column::unix_millis("reported_at").not_null())
        .take()
}
