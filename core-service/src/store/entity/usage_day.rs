//! Table `usage_days`.

use sea_orm::entity::prelude::*;

use crate::domain::{Day, Tally, UsageDay};

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "usage_days")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub account_id: i64,
    #[sea_orm(primary_key, auto_increment = false)]
    pub day: i64,
    pub succeeded: i64,
    pub client_errors: i64,
    pub refused: i64,
    pub server_errors: i64,
    pub get_pet: i64,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl From<Model> for UsageDay {
    fn from(row: Model) -> Self {
        let Model { account_id: _, day, succeeded, client_errors, refused, server_errors, get_pet } = row;
        Self { day: Day(day), tally: Tally { succeeded, client_errors, refused, server_errors, get_pet } }
    }
}
