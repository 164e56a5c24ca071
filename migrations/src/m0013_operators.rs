//! Who may administer the service: a token of each operator, of which only the digest is kept.

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
        manager.create_table(operators()).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.drop_table(Table::drop().table("operators").take()).await
    }
}

/// Operators are never removed, so that a name in the audit is always the same one's.
pub(crate) fn operators() -> TableCreateStatement {
    Table::create()
        .table("operators")
        .col(column::assigned_id())
        .col(ColumnDef::new("name").text().not_null().unique_key())
        .col(ColumnDef::new("role").text().not_null())
        .col(ColumnDef::new("digest").blob().not_null().unique_key())
        .col(ColumnDef::new("last_four").text().not_null())
        .col(column::unix_millis("created_at").not_null())
        .col(column::unix_millis("revoked_at").null())
        .col(column::unix_millis("last_used_at").null())
        .take()
}
