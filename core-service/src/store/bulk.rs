//! Many animals at once.

use petstore_clock::UnixMillis;
use sea_orm::{
    ActiveModelTrait,
    ActiveValue::{Set, Unchanged},
    ConnectionTrait, DbBackend, DbErr, EntityTrait, QuerySelect,
};

use super::{
    Session, Store,
    entity::{account::moment_column, import, pet},
    pets::pet_row,
};
use crate::domain::{Batch, ImportChunk, ImportId, ImportProgress, Imported, Pet, PetStoreError};

impl Store {
    /// Adds animals, all or none: it is one statement. They come back in their order, which is that of their
    /// identifiers too.
    pub(crate) async fn insert_pets(&self, batch: Batch) -> Result<Vec<Pet>, PetStoreError> {
        let rows: Vec<_> = batch.into_pets().into_iter().map(pet_row).collect();
        let inserted = async { self.insert_rows(rows).await.map_err(PetStoreError::from) };
        let mut rows = self.within(inserted).await?;
        // Identifiers are assigned in the order of the values, but no order is promised of what comes back.
        rows.sort_unstable_by_key(|row| row.id);
        rows.into_iter().map(Pet::try_from).collect()
    }

    /// Adds the animals of those lines that the import has not passed yet, and moves its position, in one
    /// transaction: whatever is sent twice, at once or after an answer was lost, is added once.
    pub(crate) async fn import(
        &self,
        id: &ImportId,
        chunk: ImportChunk,
        now: UnixMillis,
    ) -> Result<Imported, PetStoreError> {
        let id = id.clone();
        self.transaction_beside_others(move |transaction| {
            Box::pin(async move { import_lines(transaction, &id, chunk, now).await })
        })
        .await
    }

    /// How far the import has come. What is under way elsewhere may not be seen yet.
    pub(crate) async fn import_progress(&self, id: &ImportId) -> Result<ImportProgress, PetStoreError> {
        let find = import::Entity::find_by_id(id.as_str());
        let rows = self.read(move |db| Box::pin(find.clone().all(db))).await?;
        Ok(rows.into_iter().next().map(ImportProgress::from).unwrap_or_default())
    }
}

async fn import_lines(
    transaction: &Session,
    id: &ImportId,
    ImportChunk { lines, last_line }: ImportChunk,
    now: UnixMillis,
) -> Result<Imported, PetStoreError> {
    let before = lock_progress(transaction, id, now).await?;
    if last_line <= before.last_line {
        return Ok(Imported { created: 0, progress: before });
    }
    let new = lines.into_iter().filter(|(line, _)| *line > before.last_line);
    let rows: Vec<_> = new.map(|(_, pet)| pet_row(pet)).collect();
    let created = i64::try_from(rows.len()).unwrap_or(i64::MAX);
    if !rows.is_empty() {
        pet::Entity::insert_many(rows).exec_without_returning(transaction).await?;
    }
    let progress = ImportProgress { last_line, created: before.created.saturating_add(created) };
    let row = import::ActiveModel {
        import_id: Unchanged(id.as_str().to_owned()),
        last_line: Set(progress.last_line),
        created: Set(progress.created),
        updated_at: Set(moment_column(now)),
    };
    row.update(transaction).await?;
    Ok(Imported { created, progress })
}

/// How far the import has come; nobody else moves it until the transaction ends. An import that is not known begins.
async fn lock_progress(
    transaction: &Session,
    id: &ImportId,
    now: UnixMillis,
) -> Result<ImportProgress, DbErr> {
    if let Some(progress) = find_locked(transaction, id).await? {
        return Ok(progress);
    }
    let row = import::ActiveModel {
        import_id: Set(id.as_str().to_owned()),
        last_line: Set(0),
        created: Set(0),
        updated_at: Set(moment_column(now)),
    };
    import::Entity::insert(row).on_conflict_do_nothing().exec_without_returning(transaction).await?;
    let progress = find_locked(transaction, id).await?;
    progress.ok_or_else(|| DbErr::RecordNotFound("the import that was just inserted".to_owned()))
}

async fn find_locked(transaction: &Session, id: &ImportId) -> Result<Option<ImportProgress>, DbErr> {
    let mut find = import::Entity::find_by_id(id.as_str());
    if transaction.get_database_backend() == DbBackend::Postgres {
        find = find.lock_exclusive(); // on SQLite the transaction holds the only lock that there is
    }
    Ok(find.all(transaction).await?.into_iter().next().map(ImportProgress::from))
}

#[cfg(test)]
mod tests;
