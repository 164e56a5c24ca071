//! Table `revision`, which every schema has: one row, with the id 1. Exclusive transactions lock it on
//! PostgreSQL, and pings read it. Its value belongs to the program, which may count its changes there.

use sea_orm::entity::prelude::*;

/// The row.
#[sea_orm::model]
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "revision")]
pub struct Model {
    /// Always 1.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: i16,
    /// Number of the newest change.
    pub value: i64,
}

impl ActiveModelBehavior for ActiveModel {}

/// Returns the query for the row.
pub fn row() -> Select<Entity> {
    Entity::find().filter(Column::Id.eq(1))
}
