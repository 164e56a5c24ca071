//! Table `pets`, and the tables of creations and imports.

use sea_orm::{ActiveValue::Set, entity::prelude::*};

use super::{NewPet, Pet, PetId, PetName, PetStatus};
use crate::errors::PetStoreError;

#[sea_orm::model]
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "pets")]
pub(crate) struct Model {
    #[sea_orm(primary_key)]
    pub id: i64,
    pub name: String,
    pub category_id: i64,
    pub status: Option<i16>,
}

impl ActiveModelBehavior for ActiveModel {}

/// Converts a new pet to the row to be added. The database assigns its identifier.
impl From<NewPet> for ActiveModel {
    fn from(new: NewPet) -> Self {
        Self {
            name: Set(new.name.into_string()),
            category_id: Set(new.category_id),
            status: Set(new.status.map(PetStatus::number)),
            ..Default::default()
        }
    }
}

impl TryFrom<Model> for Pet {
    type Error = PetStoreError;

    fn try_from(row: Model) -> Result<Self, Self::Error> {
        let status = row.status.map(|number| {
            PetStatus::from_number(number)
                .ok_or_else(|| PetStoreError::Bug(format!("pet {} has the status {number}", row.id).into()))
        });
        Ok(Self {
            id: PetId(row.id),
            name: PetName::stored(row.name),
            category_id: row.category_id,
            status: status.transpose()?,
        })
    }
}

/// Table `create_requests`.
pub(super) mod create_request {
    use sea_orm::entity::prelude::*;

    #[sea_orm::model]
    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "create_requests")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub digest: Vec<u8>,
        pub pet_id: i64,
        pub created_at: i64,
    }

    impl ActiveModelBehavior for ActiveModel {}
}

/// Table `imports`.
pub(super) mod import {
    use sea_orm::entity::prelude::*;

    use crate::pets::ImportProgress;

    #[sea_orm::model]
    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "imports")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub import_id: String,
        pub last_line: i64,
        pub created: i64,
        pub updated_at: i64,
    }

    impl ActiveModelBehavior for ActiveModel {}

    impl From<Model> for ImportProgress {
        fn from(row: Model) -> Self {
            Self { last_line: row.last_line, created: row.created }
        }
    }
}
