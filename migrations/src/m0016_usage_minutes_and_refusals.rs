//! What keys asked for, by minute, and which requests were refused: of the last 24 hours.

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
        manager.create_table(usage_minutes()).await?;
        manager.create_table(refusals()).await?;
        manager.create_table(refusal_counts()).await?;
        for index in [
            // Serves sums over all accounts, and forgetting; an account's minutes have the primary key.
            Index::create().name("usage_minutes_minute").table("usage_minutes").col("minute").take(),
            Index::create().name("refusals_request").table("refusals").col("request_id").take(),
            // Serves an account's refusals, also those of one key, and how many of a kind it has.
            Index::create()
                .name("refusals_account")
                .table("refusals")
                .col("account_id")
                .col("cause")
                .col("refused_at")
                .take(),
            // Serves forgetting.
            Index::create().name("refusals_time").table("refusals").col("refused_at").take(),
        ] {
            manager.create_index(index).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for table in ["refusal_counts", "refusals", "usage_minutes"] {
            manager.drop_table(Table::drop().table(table).take()).await?;
        }
        Ok(())
    }
}

/// No foreign keys, as in `usage_days`.
pub(crate) fn usage_minutes() -> TableCreateStatement {
    Table::create()
        .table("usage_minutes")
        .col(ColumnDef::new("account_id").big_integer().not_null())
        .col(ColumnDef::new("minute").big_integer().not_null()) // minutes since 1970-01-01T00:00Z
        .col(ColumnDef::new("key_id").text().not_null())
        .col(ColumnDef::new("succeeded").big_integer().not_null())
        .col(ColumnDef::new("client_errors").big_integer().not_null())
        .col(ColumnDef::new("refused").big_integer().not_null())
        .col(ColumnDef::new("server_errors").big_integer().not_null())
        .col(ColumnDef::new("get_pet").big_integer().not_null())
        .primary_key(Index::create().col("account_id").col("minute").col("key_id"))
        .take()
}

pub(crate) fn refusals() -> TableCreateStatement {
    Table::create()
        .table("refusals")
        .col(column::assigned_id())
        .col(ColumnDef::new("request_id").text().not_null())
        .col(column::unix_millis("refused_at").not_null())
        .col(ColumnDef::new("cause").big_integer().not_null()) // a RefusalCause of the contract
        .col(ColumnDef::new("account_id").big_integer().not_null()) // 0: no valid key
        .col(ColumnDef::new("key_id").text())
        .col(ColumnDef::new("quota").big_integer()) // the limit, if it was one
        .col(column::unix_millis("since"))
        .col(column::unix_millis("until"))
        .col(ColumnDef::new("repeats").big_integer().not_null()) // how many more are not kept
        .take()
}

pub(crate) fn refusal_counts() -> TableCreateStatement {
    Table::create()
        .table("refusal_counts")
        .col(ColumnDef::new("minute").big_integer().not_null())
        .col(ColumnDef::new("cause").big_integer().not_null())
        .col(ColumnDef::new("requests").big_integer().not_null())
        .primary_key(Index::create().col("minute").col("cause"))
        .take()
}
