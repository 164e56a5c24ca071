//! Names of creations are kept as digests: a client may have put a secret into one.

use sea_orm_migration::{
    prelude::*,
    sea_orm::{ConnectionTrait, DbBackend, Statement},
};
use sha2::{Digest, Sha256};

use crate::{column, m0008_create_requests};

/// Rows that are read at once on SQLite, which has no function for digests.
const BATCH: usize = 1_000;

#[derive(DeriveMigrationName)]
pub(crate) struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }

    /// Names that are known stay known.
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let db = manager.get_connection();
        if manager.get_database_backend() == DbBackend::Postgres {
            let digest = "ALTER TABLE create_requests ALTER COLUMN request_id TYPE bytea \
                          USING sha256(convert_to(request_id, 'UTF8'))";
            db.execute_unprepared(digest).await?;
            db.execute_unprepared("ALTER TABLE create_requests RENAME COLUMN request_id TO digest").await?;
            return Ok(());
        }
        manager.create_table(digests().table("create_request_digests").take()).await?;
        copy(db).await?;
        manager.drop_table(Table::drop().table("create_requests").take()).await?;
        manager
            .rename_table(Table::rename().table("create_request_digests", "create_requests").take())
            .await?;
        manager.create_index(m0008_create_requests::by_time()).await
    }

    /// A name cannot be had back from its digest: all are forgotten. A request that is repeated then adds
    /// again.
    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        manager.drop_table(Table::drop().table("create_requests").take()).await?;
        manager.create_table(m0008_create_requests::create_requests()).await?;
        manager.create_index(m0008_create_requests::by_time()).await
    }
}

pub(crate) fn digests() -> TableCreateStatement {
    Table::create()
        .table("create_requests")
        .col(ColumnDef::new("digest").blob().not_null().primary_key()) // SHA-256 of the name
        .col(ColumnDef::new("pet_id").big_integer().not_null())
        .col(column::unix_millis("created_at").not_null())
        .take()
}

async fn copy(db: &SchemaManagerConnection<'_>) -> Result<(), DbErr> {
    let mut last = String::new(); // no name is empty
    loop {
        let next = Statement::from_sql_and_values(
            DbBackend::Sqlite,
            format!(
                "SELECT request_id, pet_id, created_at FROM create_requests WHERE request_id > ? \
                 ORDER BY request_id LIMIT {BATCH}"
            ),
            [last.as_str().into()],
        );
        let rows = db.query_all_raw(next).await?;
        let mut insert = Query::insert();
        insert.into_table("create_request_digests").columns(["digest", "pet_id", "created_at"]);
        for row in &rows {
            let (name, pet_id, created_at): (String, i64, i64) =
                (row.try_get_by_index(0)?, row.try_get_by_index(1)?, row.try_get_by_index(2)?);
            let digest = Sha256::digest(&name).to_vec();
            insert.values_panic([digest.into(), pet_id.into(), created_at.into()]);
            last = name;
        }
        if rows.is_empty() {
            return Ok(());
        }
        db.execute(&insert).await?;
    }
}
