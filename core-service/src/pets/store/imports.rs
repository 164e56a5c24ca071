//! Imports: chunks of lines, each added once even if it is sent several times.

use petstore_clock::UnixMillis;
use petstore_database::Session;
use sea_orm::{
    ActiveModelTrait,
    ActiveValue::{Set, Unchanged},
    ConnectionTrait, DbBackend, DbErr, EntityTrait, QuerySelect,
};

use super::StoredPets;
use crate::{
    errors::PetStoreError,
    pets::{
        ImportChunk, ImportProgress,
        entity::{self as pet, import},
    },
};

impl StoredPets {
    /// Adds the pets of those lines that the import has not passed yet, and moves its position, in one
    /// transaction. Lines that are sent twice, concurrently or after a lost answer, are added once. Returns
    /// the number of pets added, and the position.
    pub(crate) async fn import_chunk(
        &self,
        id: &str,
        chunk: ImportChunk,
        now: UnixMillis,
    ) -> Result<(i64, ImportProgress), PetStoreError> {
        let id = id.to_owned();
        self.database
            .transaction_beside_others(move |transaction| {
                Box::pin(async move { import_lines(transaction, &id, chunk, now).await })
            })
            .await
    }

    /// Returns the position of the import. A chunk that is in flight elsewhere may not be included yet.
    pub(crate) async fn import_progress(&self, id: &str) -> Result<ImportProgress, PetStoreError> {
        let find = import::Entity::find_by_id(id);
        let rows = self.database.all(find).await?;
        Ok(rows.into_iter().next().map(ImportProgress::from).unwrap_or_default())
    }
}

async fn import_lines(
    transaction: &Session,
    id: &str,
    ImportChunk { lines, last_line }: ImportChunk,
    now: UnixMillis,
) -> Result<(i64, ImportProgress), PetStoreError> {
    let before = lock_progress(transaction, id, now).await?;
    if last_line <= before.last_line {
        return Ok((0, before));
    }
    let new = lines.into_iter().filter(|(line, _)| *line > before.last_line);
    let rows: Vec<_> = new.map(|(_, pet)| pet::ActiveModel::from(pet)).collect();
    let created = i64::try_from(rows.len()).unwrap_or(i64::MAX);
    if !rows.is_empty() {
        pet::Entity::insert_many(rows).exec_without_returning(transaction).await?;
    }
    let progress = ImportProgress { last_line, created: before.created.saturating_add(created) };
    let row = import::ActiveModel {
        import_id: Unchanged(id.to_owned()),
        last_line: Set(progress.last_line),
        created: Set(progress.created),
        updated_at: Set(now.as_i64()),
    };
    row.update(transaction).await?;
    Ok((created, progress))
}

/// Returns the position of the import, and locks it until the transaction ends. An unknown import begins.
async fn lock_progress(transaction: &Session, id: &str, now: UnixMillis) -> Result<ImportProgress, DbErr> {
    if let Some(progress) = find_locked(transaction, id).await? {
        return Ok(progress);
    }
    let row = import::ActiveModel {
        import_id: Set(id.to_owned()),
        last_line: Set(0),
        created: Set(0),
        updated_at: Set(now.as_i64()),
    };
    import::Entity::insert(row).on_conflict_do_nothing().exec_without_returning(transaction).await?;
    let progress = find_locked(transaction, id).await?;
    progress.ok_or_else(|| DbErr::RecordNotFound("the import that was just inserted".to_owned()))
}

async fn find_locked(transaction: &Session, id: &str) -> Result<Option<ImportProgress>, DbErr> {
    let mut find = import::Entity::find_by_id(id);
    if transaction.get_database_backend() == DbBackend::Postgres {
        find = find.lock_exclusive(); // on SQLite the transaction holds the only lock that there is
    }
    Ok(find.all(transaction).await?.into_iter().next().map(ImportProgress::from))
}

#[cfg(test)]
mod tests;
