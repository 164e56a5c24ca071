//! Table `bans`.

use sea_orm::entity::prelude::*;

use super::account::{moment_column, stored_moment};
use crate::domain::{Ban, BanNote};

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "bans")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub key_id: String,
    pub imposed_at: i64,
    pub ends_at: i64,
}

#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub(crate) enum Relation {
    #[sea_orm(
        belongs_to = "super::api_key::Entity",
        from = "Column::KeyId",
        to = "super::api_key::Column::Id"
    )]
    Key,
}

impl Related<super::api_key::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Key.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}

/// The note in two columns.
pub(crate) fn stored_note(imposed_at: i64, ends_at: i64) -> BanNote {
    let (from, until) = (stored_moment(imposed_at), stored_moment(ends_at));
    Ban::new(from, until).map_or(BanNote::Lifted(from), BanNote::Banned)
}

/// The two columns for a note.
pub(crate) fn note_columns(note: BanNote) -> (i64, i64) {
    match note {
        BanNote::Banned(ban) => (moment_column(ban.from), moment_column(ban.until)),
        BanNote::Lifted(at) => (moment_column(at), moment_column(at)),
    }
}
