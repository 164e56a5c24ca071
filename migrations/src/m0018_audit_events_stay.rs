//! SQLite refuses to replace an audit event, too. `INSERT OR REPLACE` removes the old row without a trigger for
//! deletions.

use sea_orm_migration::{
    prelude::*,
    sea_orm::{ConnectionTrait, DbBackend},
};

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

impl Migration {
    async fn execute(manager: &SchemaManager<'_>, statement: &str) -> Result<(), DbErr> {
        if manager.get_database_backend() == DbBackend::Sqlite {
            manager.get_connection().execute_unprepared(statement).await?;
        }
        Ok(())
    }
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let trigger = "CREATE TRIGGER audit_events_no_replace BEFORE INSERT ON audit_events \
                       WHEN EXISTS (SELECT 1 FROM audit_events WHERE id = NEW.id) \
                       BEGIN SELECT RAISE(ABORT, 'audit events are append-only'); END";
        Self::execute(manager, trigger).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        Self::execute(manager, "DROP TRIGGER audit_events_no_replace").await
    }
}
