//! Sessions that operators have opened, of which only the digest of the token is kept.

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
        manager.create_table(operator_sessions()).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.drop_table(Table::drop().table("operator_sessions").take()).await
    }
}

/// No foreign key: operators are never removed.
pub(crate) fn operator_sessions() -> TableCreateStatement {
    Table::create()
        .table("operator_sessions")
        .col(ColumnDef::new("digest").blob().not_null().primary_key())
        .col(ColumnDef::new("operator_id").big_integer().not_null())
        .col(column::unix_millis("expires_at").not_null())
        .take()
}
