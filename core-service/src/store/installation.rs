//! What tells this store from any other.

use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};

use super::{Store, entity::installation};
use crate::domain::PetStoreError;

impl Store {
    /// The name that the store was given when it was made, or brought up to date by the first release that names
    /// stores. A copy of the database has the same.
    pub(crate) async fn installation(&self) -> Result<String, PetStoreError> {
        let find = installation::Entity::find().filter(installation::Column::Id.eq(1));
        let row = self.read(move |db| Box::pin(find.clone().all(db))).await?.pop();
        row.map(|row| row.name).ok_or_else(|| PetStoreError::Bug("the installation has no name".into()))
    }
}
