//! Table `bans`.

use sea_orm::entity::prelude::*;

use super::account::{moment_column, stored_moment};
use crate::domain::{Ban, BanNote, BanOrigin, StatedReason};

#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "bans")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub key_id: String,
    pub imposed_at: i64,
    pub ends_at: i64,
    pub origin: String,
    pub reason: Option<String>,
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

/// Origin of a ban that an operator imposed. Distinguishes it from the limiter's.
const OPERATOR: &str = "operator";
const LIMITER: &str = "limiter";

/// Returns the note in a row.
pub(crate) fn stored_note(imposed_at: i64, ends_at: i64, origin: &str, reason: Option<String>) -> BanNote {
    let (from, until) = (stored_moment(imposed_at), stored_moment(ends_at));
    let origin = if origin == OPERATOR {
        BanOrigin::Operator(reason.map(StatedReason::stored))
    } else {
        BanOrigin::Limiter
    };
    Ban::new(from, until, origin).map_or(BanNote::Lifted(from), BanNote::Banned)
}

impl From<Model> for BanNote {
    fn from(row: Model) -> Self {
        stored_note(row.imposed_at, row.ends_at, &row.origin, row.reason)
    }
}

/// Returns the row for a note.
pub(crate) fn note_row(key_id: &str, note: BanNote) -> ActiveModel {
    use sea_orm::ActiveValue::Set;
    let (imposed_at, ends_at, origin) = match note {
        BanNote::Banned(Ban { from, until, origin }) => (from, until, origin),
        BanNote::Lifted(at) => (at, at, BanOrigin::Operator(None)),
    };
    let (origin, reason) = match origin {
        BanOrigin::Limiter => (LIMITER, None),
        BanOrigin::Operator(reason) => (OPERATOR, reason.map(|reason| reason.as_str().to_owned())),
    };
    ActiveModel {
        key_id: Set(key_id.to_owned()),
        imposed_at: Set(moment_column(imposed_at)),
        ends_at: Set(moment_column(ends_at)),
        origin: Set(origin.to_owned()),
        reason: Set(reason),
    }
}
