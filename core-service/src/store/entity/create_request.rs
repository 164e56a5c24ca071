//! Table `create_requests`.

use sea_orm::entity::prelude::*;

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "create_requests")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub digest: Vec<u8>,
    pub pet_id: i64,
    pub created_at: i64,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
