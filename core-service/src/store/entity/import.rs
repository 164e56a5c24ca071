//! Table `imports`.

use sea_orm::entity::prelude::*;

use crate::domain::ImportProgress;

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "imports")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub import_id: String,
    pub last_line: i64,
    pub created: i64,
    pub updated_at: i64,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

impl From<Model> for ImportProgress {
    fn from(row: Model) -> Self {
        Self { last_line: row.last_line, created: row.created }
    }
}
