//! What tells this store from any other: one row, for ever. Gateways of several installations may share a
//! Redis.

use rand::distr::{Alphanumeric, SampleString};
use sea_orm_migration::prelude::*;

/// So many letters and digits: that two of a thousand stores are named alike is less likely than one in a
/// hundred million. The name is part of every key in Redis, so it is short.
const NAME_LENGTH: usize = 8;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.create_table(installation()).await?;
        let name = Alphanumeric.sample_string(&mut rand::rng(), NAME_LENGTH);
        manager
            .execute(
                Query::insert()
                    .into_table("installation")
                    .columns(["id", "name"])
                    .values_panic([1.into(), name.into()])
                    .take(),
            )
            .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.drop_table(Table::drop().table("installation").take()).await
    }
}

pub(crate) fn installation() -> TableCreateStatement {
    Table::create()
        .table("installation")
        .col(ColumnDef::new("id").small_integer().not_null().primary_key().check(Expr::col("id").eq(1)))
        .col(ColumnDef::new("name").text().not_null())
        .take()
}
