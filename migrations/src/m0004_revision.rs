//! The counter of changes to accounts and keys: one row, for ever.
//!
//! It is raised in the transaction of the change itself. The row's lock makes the next change wait for that
//! commit, so that revisions become visible in their order on PostgreSQL too.

use sea_orm_migration::prelude::*;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.create_table(revision()).await?;
        manager
            .execute(
                Query::insert()
                    .into_table("revision")
                    .columns(["id", "value"])
                    .values_panic([1.into(), 0.into()])
                    .take(),
            )
            .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.drop_table(Table::drop().table("revision").take()).await
    }
}

pub(crate) fn revision() -> TableCreateStatement {
    Table::create()
        .table("revision")
        .col(ColumnDef::new("id").small_integer().not_null().primary_key().check(Expr::col("id").eq(1)))
        .col(ColumnDef::new("value").big_integer().not_null())
        .take()
}
