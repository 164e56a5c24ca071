//! Animals in the database.

use sea_orm::{
    ActiveValue::Set, ColumnTrait, DbErr, EntityTrait, QueryFilter, QueryOrder, QuerySelect, Select,
};

use super::{Store, connection::reading, entity::pet};
use crate::domain::{List, ListPets, NewPet, Page, Pet, PetId, PetStatus, PetStoreError};

impl Store {
    /// Adds an animal, and assigns its identifier.
    pub(crate) async fn insert_pet(&self, new: NewPet) -> Result<Pet, PetStoreError> {
        let inserted = async { self.insert_rows(vec![pet_row(new)]).await.map_err(PetStoreError::from) };
        let rows = self.within(inserted).await?;
        let row = rows.into_iter().next().ok_or(DbErr::RecordNotInserted)?;
        row.try_into()
    }

    /// The animal, if there is one. A replica that has it is as good as the primary, for an animal never changes; one
    /// that lacks it may only be late.
    pub(crate) async fn find_pet(&self, id: PetId) -> Result<Option<Pet>, PetStoreError> {
        // `.all()` and not `.one()`, which binds a LIMIT, and SQLite prepares a statement with a bound LIMIT anew
        // each time.
        let find = reading(move |db| Box::pin(pet::Entity::find_by_id(id.0).all(db)));
        let mut rows = self.ask_replica(find).await.unwrap_or_default();
        if rows.is_empty() {
            rows = self.read(find).await?;
        }
        rows.pop().map(Pet::try_from).transpose()
    }

    /// One page, from a replica if there is one: then what was added within the last seconds may be missing. Costs
    /// the same at any depth: it begins where the page before ended, by key.
    pub(crate) async fn list_pets(&self, list: ListPets) -> Result<Page<Pet>, PetStoreError> {
        let query = page_query(list);
        let find = reading(move |db| Box::pin(query.clone().all(db)));
        let rows = match self.ask_replica(find.clone()).await {
            Some(rows) => rows,
            None => self.read(find).await?,
        };
        let pets = rows.into_iter().map(Pet::try_from).collect::<Result<_, _>>()?;
        Ok(Page::cut(pets, list.size, List::Pets(list.status), |pet| pet.id.0))
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

/// The animals of a page, and one more: it tells whether another page follows. By primary key, or by the index
/// over status and identifier.
fn page_query(list: ListPets) -> Select<pet::Entity> {
    let mut find = pet::Entity::find();
    if let Some(status) = list.status {
        find = find.filter(pet::Column::Status.eq(status_column(status)));
    }
    if let Some(after) = list.after {
        find = find.filter(pet::Column::Id.gt(after.0));
    }
    find.order_by_asc(pet::Column::Id).limit(list.size.get() as u64 + 1)
}

pub(super) fn status_column(status: PetStatus) -> i16 {
    status.number().into()
}

#[cfg(test)]
mod tests;
