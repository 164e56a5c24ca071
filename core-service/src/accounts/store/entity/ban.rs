//! Table `bans`.

use petstore_clock::UnixMillis;
use petstore_proto::internal::v1 as internal;
use sea_orm::entity::prelude::*;

use crate::accounts::{Ban, BanNote, BanOrigin, Remark};

#[sea_orm::model]
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "bans")]
pub(crate) struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub key_id: String,
    pub imposed_at: i64,
    pub ends_at: i64,
    pub origin: String,
    pub reason: Option<String>,
    #[sea_orm(belongs_to, from = "key_id", to = "id")]
    pub key: BelongsTo<super::api_key::Entity>,
}

impl ActiveModelBehavior for ActiveModel {}

impl From<Model> for BanNote {
    fn from(row: Model) -> Self {
        let (from, until) = (UnixMillis::stored(row.imposed_at), UnixMillis::stored(row.ends_at));
        let origin = match row.origin.as_str() {
            "operator" => BanOrigin::Operator(row.reason.map(Remark::stored)),
            _ => BanOrigin::Limiter,
        };
        Ban::new(from, until, origin).map_or(Self::Lifted(from), Self::Banned)
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
        BanOrigin::Limiter => ("limiter", None),
        BanOrigin::Operator(reason) => ("operator", reason.map(|reason| reason.as_str().to_owned())),
    };
    ActiveModel {
        key_id: Set(key_id.to_owned()),
        imposed_at: Set(imposed_at.as_i64()),
        ends_at: Set(ends_at.as_i64()),
        origin: Set(origin.to_owned()),
        reason: Set(reason),
    }
}

/// Returns the last ban as gateways see it, if it still matters, and the time in milliseconds up to which
/// bans are lifted, if they are.
pub(crate) fn note_message(note: &BanNote, now: UnixMillis) -> (Option<internal::Ban>, Option<i64>) {
    let last_ban = note.last_ban(now).map(|ban| {
        let (origin, reason) = ban.origin.message();
        internal::Ban { imposed_at_ms: ban.from.as_i64(), ends_at_ms: ban.until.as_i64(), origin, reason }
    });
    let lifted_at = if let BanNote::Lifted(at) = note { Some(at.as_i64()) } else { None };
    (last_ban, lifted_at)
}
