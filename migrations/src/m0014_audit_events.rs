//! What operators changed. The database itself refuses to change or remove an event.

use sea_orm_migration::{
    prelude::*,
    sea_orm::{ConnectionTrait, DbBackend},
};

use crate::column;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.create_table(audit_events()).await?;
        for column in ["created_at", "operator", "account_id", "account", "key_id"] {
            let index = Index::create()
                .name(format!("audit_events_{column}"))
                .table("audit_events")
                .col(column)
                .col("id")
                .take();
            manager.create_index(index).await?;
        }
        let statements: &[&str] = match manager.get_database_backend() {
            DbBackend::Sqlite => &[
                "CREATE TRIGGER audit_events_no_update BEFORE UPDATE ON audit_events \
                 BEGIN SELECT RAISE(ABORT, 'audit events are append-only'); END",
                "CREATE TRIGGER audit_events_no_delete BEFORE DELETE ON audit_events \
                 BEGIN SELECT RAISE(ABORT, 'audit events are append-only'); END",
            ],
            _ => &[
                "CREATE FUNCTION audit_events_refuse() RETURNS trigger LANGUAGE plpgsql AS \
                 $$ BEGIN RAISE EXCEPTION 'audit events are append-only'; END $$",
                "CREATE TRIGGER audit_events_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_events \
                 FOR EACH STATEMENT EXECUTE FUNCTION audit_events_refuse()",
            ],
        };
        for statement in statements {
            manager.get_connection().execute_unprepared(statement).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.drop_table(Table::drop().table("audit_events").take()).await?; // with its triggers
        if manager.get_database_backend() == DbBackend::Postgres {
            manager.get_connection().execute_unprepared("DROP FUNCTION audit_events_refuse()").await?;
        }
        Ok(())
    }
}

/// No foreign keys: an event says what was, whatever becomes of it.
pub(crate) fn audit_events() -> TableCreateStatement {
    Table::create()
        .table("audit_events")
        .col(column::assigned_id())
        .col(column::unix_millis("created_at").not_null())
        .col(ColumnDef::new("operator").text().not_null())
        .col(ColumnDef::new("client_address").text().not_null())
        .col(ColumnDef::new("action").text().not_null())
        .col(ColumnDef::new("account_id").big_integer().null())
        .col(ColumnDef::new("account").text().null())
        .col(ColumnDef::new("key_id").text().null())
        .col(ColumnDef::new("target_operator").text().null())
        .col(ColumnDef::new("before").text().null()) // JSON
        .col(ColumnDef::new("after").text().null()) // JSON
        .take()
}
