//! Table `usage_minutes`.

use sea_orm::entity::prelude::*;

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "usage_minutes")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub account_id: i64,
    #[sea_orm(primary_key, auto_increment = false)]
    pub minute: i64,
    #[sea_orm(primary_key, auto_increment = false)]
    pub key_id: String,
    pub succeeded: i64,
    pub client_errors: i64,
    pub refused: i64,
    pub server_errors: i64,
    pub get_pet: i64,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
