//! Bans of keys in the database.

use petstore_clock::UnixMillis;
use sea_orm::{ColumnTrait, DbErr, EntityTrait, QueryFilter, QueryOrder, QuerySelect, sea_query::OnConflict};

use super::{
    Session, Store,
    changes::{current_revision, touch},
    entity::{
        account::{self, moment_column},
        api_key,
        ban::{self, note_columns, stored_note},
    },
    keys::{self, name_of},
};
use crate::domain::{AccountError, Ban, BanNote, BanRecord, KeyId, PetStoreError};

/// How many notes one report forgets that are over; the next one goes on.
const SWEEP: u64 = 100;

impl Store {
    /// Takes note of a ban that a gateway imposed, unless what is kept outweighs it. What holds then, and the
    /// revision that this is as new as. An unknown key has no ban.
    pub(crate) async fn report_ban(
        &self,
        key_id: &str,
        reported: Ban,
        now: UnixMillis,
    ) -> Result<(Option<Ban>, i64), PetStoreError> {
        let key_id = key_id.to_owned();
        self.transaction(move |transaction| {
            Box::pin(async move {
                let key = api_key::Entity::find_by_id(&key_id).all(transaction).await?.pop();
                let kept = ban::Entity::find_by_id(&key_id).all(transaction).await?.pop();
                let kept = kept.map(|row| stored_note(row.imposed_at, row.ends_at));
                let Some(key) = key.filter(|_| kept.is_none_or(|kept| kept.gives_way_to(reported))) else {
                    let revision = current_revision(transaction).await?;
                    return Ok((kept.and_then(|kept| kept.last_ban(now)), revision));
                };
                let revision = touch(transaction, key.account_id).await?;
                forget_what_is_over(transaction, now).await?;
                keep(transaction, &key_id, BanNote::Banned(reported)).await?;
                Ok((Some(reported), revision))
            })
        })
        .await
    }

    /// Bans a key, or lifts its bans, whatever is kept.
    pub(crate) async fn set_ban(&self, id: KeyId, note: BanNote) -> Result<(), AccountError> {
        self.transaction(move |transaction| {
            Box::pin(async move {
                let (row, _) = keys::find(transaction, id).await?;
                touch(transaction, row.account_id).await?;
                Ok(keep(transaction, &row.id, note).await?)
            })
        })
        .await
    }

    /// The bans in force, the next to end first.
    pub(crate) async fn list_bans(&self, now: UnixMillis) -> Result<Vec<BanRecord>, PetStoreError> {
        let find = ban::Entity::find()
            .find_also_related(api_key::Entity)
            .and_also_related(account::Entity)
            .filter(ban::Column::EndsAt.gt(moment_column(now)))
            .order_by_asc(ban::Column::EndsAt);
        let rows = self.read(move |db| Box::pin(find.clone().all(db))).await?;
        let records = rows.into_iter().filter_map(|(row, _, account)| {
            let ban = stored_note(row.imposed_at, row.ends_at).last_ban(now)?; // a lifting may lie in the future
            let bug = || PetStoreError::Bug(format!("a ban is of key {}", row.key_id).into());
            Some(row.key_id.parse().map_err(|_| bug()).map(|key_id| BanRecord {
                key_id,
                account: name_of(account),
                ban,
            }))
        });
        records.collect()
    }
}

async fn keep(transaction: &Session, key_id: &str, note: BanNote) -> Result<(), DbErr> {
    use sea_orm::ActiveValue::Set;
    let (imposed_at, ends_at) = note_columns(note);
    let row = ban::ActiveModel {
        key_id: Set(key_id.to_owned()),
        imposed_at: Set(imposed_at),
        ends_at: Set(ends_at),
    };
    let replace = OnConflict::column(ban::Column::KeyId)
        .update_columns([ban::Column::ImposedAt, ban::Column::EndsAt])
        .to_owned();
    ban::Entity::insert(row).on_conflict(replace).exec_without_returning(transaction).await.map(drop)
}

async fn forget_what_is_over(transaction: &Session, now: UnixMillis) -> Result<(), DbErr> {
    let over = ban::Entity::find()
        .select_only()
        .column(ban::Column::KeyId)
        .filter(ban::Column::EndsAt.lte(moment_column(now.minus(Ban::MEMORY))))
        .limit(SWEEP);
    let over: Vec<String> = over.into_tuple().all(transaction).await?;
    if over.is_empty() {
        return Ok(());
    }
    ban::Entity::delete_many().filter(ban::Column::KeyId.is_in(over)).exec(transaction).await.map(drop)
}
