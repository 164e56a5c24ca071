//! Pets in the database.

use futures_util::future::BoxFuture;
use sea_orm::{
    ActiveValue::Set, ColumnTrait, DbErr, EntityTrait, QueryFilter, QueryOrder, QuerySelect, Select,
};

use super::{Session, Store, connection::reading, entity::pet};
use crate::domain::{Batch, List, ListPets, NewPet, Page, Pet, PetId, PetStatus, PetStoreError};

/// The pets of a store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pets<'a>(pub(super) &'a Store);

impl Pets<'_> {
    /// Adds a pet, and assigns its identifier.
    pub(crate) async fn insert(self, new: NewPet) -> Result<Pet, PetStoreError> {
        let inserted = async { self.0.insert_rows(vec![pet_row(new)]).await.map_err(PetStoreError::from) };
        let rows = self.0.within(inserted).await?;
        let row = rows.into_iter().next().ok_or(DbErr::RecordNotInserted)?;
        row.try_into()
    }

    /// Adds pets, all or none: it is one statement. They come back in their order, which is that of their
    /// identifiers too.
    pub(crate) async fn insert_batch(self, batch: Batch) -> Result<Vec<Pet>, PetStoreError> {
        let rows: Vec<_> = batch.into_pets().into_iter().map(pet_row).collect();
        let inserted = async { self.0.insert_rows(rows).await.map_err(PetStoreError::from) };
        let mut rows = self.0.within(inserted).await?;
        // Identifiers are assigned in the order of the values, but no order is promised of what comes back.
        rows.sort_unstable_by_key(|row| row.id);
        rows.into_iter().map(Pet::try_from).collect()
    }

    /// The pet, if there is one. A replica that has it is as good as the primary, for a pet never changes; one
    /// that lacks it may only be late.
    pub(crate) async fn find(self, id: PetId) -> Result<Option<Pet>, PetStoreError> {
        // `.all()` and not `.one()`, which binds a LIMIT, and SQLite prepares a statement with a bound LIMIT anew
        // each time.
        let find = reading(move |db| Box::pin(pet::Entity::find_by_id(id.0).all(db)));
        let mut rows = self.0.read_from_replica(find).await.unwrap_or_default();
        if rows.is_empty() {
            rows = self.0.read(find).await?;
        }
        rows.pop().map(Pet::try_from).transpose()
    }

    /// One page, from a replica if there is one. Costs the same at any depth: it begins where the page before ended, by
    /// key.
    pub(crate) async fn list(self, list: ListPets) -> Result<Page<Pet>, PetStoreError> {
        let find = find_page(list, list.size.get() + 1);
        let rows = match self.0.read_from_replica(find.clone()).await {
            Some(rows) => self.confirm_end(list, rows).await?,
            None => self.0.read(find).await?,
        };
        let pets = rows.into_iter().map(Pet::try_from).collect::<Result<_, _>>()?;
        Ok(Page::cut(pets, list.size, List::Pets(list.status), |pet| pet.id.0))
    }

    /// The rows of a replica, to which the primary adds what follows them on the page: a replica that is late must not
    /// end the list early. While the primary does not answer, the rows are returned as they are.
    async fn confirm_end(
        self,
        list: ListPets,
        mut rows: Vec<pet::Model>,
    ) -> Result<Vec<pet::Model>, PetStoreError> {
        let missing = (list.size.get() + 1).saturating_sub(rows.len());
        if missing == 0 {
            return Ok(rows); // another page follows, which sees to that
        }
        let after = rows.last().map(|row| PetId(row.id)).or(list.after);
        match self.0.read(find_page(ListPets { after, ..list }, missing)).await {
            Ok(rest) => rows.extend(rest),
            Err(PetStoreError::Unavailable(_)) => {}
            Err(error) => return Err(error),
        }
        Ok(rows)
    }
}

/// The row to be added; the database gives it its identifier.
pub(super) fn pet_row(new: NewPet) -> pet::ActiveModel {
    pet::ActiveModel {
        name: Set(new.name.into_string()),
        category_id: Set(new.category_id.0),
        status: Set(new.status.map(status_column)),
        ..Default::default()
    }
}

/// Finds the first pets of a page. One more than it has tells whether another page follows.
fn find_page(
    list: ListPets,
    limit: usize,
) -> impl for<'c> Fn(&'c Session) -> BoxFuture<'c, Result<Vec<pet::Model>, DbErr>> + Clone + Send + 'static {
    let query = page_query(list, limit);
    reading(move |db| Box::pin(query.clone().all(db)))
}

/// By primary key, or by the index over status and identifier.
fn page_query(list: ListPets, limit: usize) -> Select<pet::Entity> {
    let mut find = pet::Entity::find();
    if let Some(status) = list.status {
        find = find.filter(pet::Column::Status.eq(status_column(status)));
    }
    if let Some(after) = list.after {
        find = find.filter(pet::Column::Id.gt(after.0));
    }
    find.order_by_asc(pet::Column::Id).limit(limit as u64)
}

pub(super) fn status_column(status: PetStatus) -> i16 {
    status.number().into()
}

#[cfg(test)]
mod tests;
