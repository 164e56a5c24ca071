//! Which request added which pet, for a day: so that a request that is sent twice adds one.

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
        manager.create_table(create_requests()).await?;
        manager.create_index(by_time()).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.drop_table(Table::drop().table("create_requests").take()).await
    }
}

/// Serves the sweep.
pub(crate) fn by_time() -> IndexCreateStatement {
    Index::create().name("create_requests_created_at").table("create_requests").col("created_at").take()
}

pub(crate) fn create_requests() -> TableCreateStatement {
    Table::create()
        .table("create_requests")
        .col(ColumnDef::new("request_id").text().not_null().primary_key())
        // Written in one transaction with the pet, which stays.
        .col(ColumnDef::new("pet_id").big_integer().not_null())
        .col(column::unix_millis("created_at").not_null())
        .take()
}
