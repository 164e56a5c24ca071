//! Table `refusal_counts`.

use sea_orm::entity::prelude::*;

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "refusal_counts")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub minute: i64,
    #[sea_orm(primary_key, auto_increment = false)]
    pub cause: i64,
    pub requests: i64,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
