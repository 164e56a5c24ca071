//! Bans of keys in the database.

use std::time::Duration;

use petstore_clock::UnixMillis;
use sea_orm::{
    ColumnTrait, Condition, DbErr, EntityTrait, QueryFilter, QueryOrder, QuerySelect,
    sea_query::{Expr, ExprTrait, OnConflict},
};

use super::{
    Session, Store,
    changes::{current_revision, touch},
    entity::{
        account::{self, moment_column},
        api_key,
        ban::{self, note_row},
    },
    keys::{self, name_of},
};
use crate::domain::{
    AccountError, AccountName, Ban, BanNote, BanOrigin, BanReason, BanRecord, KeyId, PetStoreError,
};

/// How many notes one report forgets that are over; the next one goes on.
const SWEEP: u64 = 100;

/// The bans of the keys of a store.
#[derive(Clone, Copy, Debug)]
pub struct Bans<'a>(pub(super) &'a Store);

impl Bans<'_> {
    /// Takes note of a ban that a gateway imposed, unless what is kept outweighs it. What is kept then, and
    /// the revision that this is as new as. An unknown key has no ban.
    pub(crate) async fn report(
        self,
        key_id: &str,
        reported: Ban,
        now: UnixMillis,
    ) -> Result<(Option<BanNote>, i64), PetStoreError> {
        let key_id = key_id.to_owned();
        self.0
            .transaction(move |transaction| {
                Box::pin(async move {
                    let key = api_key::Entity::find_by_id(&key_id).all(transaction).await?.pop();
                    let kept =
                        ban::Entity::find_by_id(&key_id).all(transaction).await?.pop().map(BanNote::from);
                    let is_news = kept.as_ref().is_none_or(|kept| kept.gives_way_to(&reported));
                    let Some(key) = key.filter(|_| is_news) else {
                        return Ok((kept, current_revision(transaction).await?));
                    };
                    let revision = touch(transaction, key.account_id).await?;
                    forget_what_is_over(transaction, now).await?;
                    let note = BanNote::Banned(reported);
                    keep(transaction, &key_id, note.clone()).await?;
                    Ok((Some(note), revision))
                })
            })
            .await
    }

    /// Bans a key from now on, in the place of whatever ban it has. Its owner is shown the reason. Its next
    /// ban is twice as long, like after any other.
    ///
    /// # Errors
    ///
    /// [`AccountError::Invalid`] if `length` is nothing, [`AccountError::KeyNotFound`], or the store's error.
    pub async fn add(
        self,
        id: KeyId,
        length: Duration,
        reason: Option<BanReason>,
        now: UnixMillis,
    ) -> Result<BanRecord, AccountError> {
        let decide = move |from: UnixMillis| {
            let ban = Ban::new(from, from.plus(length), BanOrigin::Operator(reason))?;
            Ok((BanNote::Banned(ban.clone()), ban))
        };
        let (ban, account) = self.set(id, now, decide).await?;
        Ok(BanRecord { key_id: id, account, ban })
    }

    /// Lifts a key's ban and forgets that there was one, so that a next one is as short as a first one. Does
    /// the same for bans that were imposed before but are not known here yet.
    ///
    /// # Errors
    ///
    /// [`AccountError::KeyNotFound`], or the store's error.
    pub async fn lift(self, id: KeyId, now: UnixMillis) -> Result<(), AccountError> {
        self.set(id, now, |at| Ok((BanNote::Lifted(at), ()))).await.map(drop)
    }

    /// Bans a key, or lifts its bans, whatever is kept: `decide` makes the note of the moment at which that
    /// is. It is `now`, or when the kept ban was imposed, if that was by a clock ahead of this one: what is
    /// newer holds. Returns the name of the key's account too.
    async fn set<T: Send + 'static>(
        self,
        id: KeyId,
        now: UnixMillis,
        decide: impl FnOnce(UnixMillis) -> Result<(BanNote, T), AccountError> + Send + 'static,
    ) -> Result<(T, AccountName), AccountError> {
        self.0
            .transaction(move |transaction| {
                Box::pin(async move {
                    let (row, account) = keys::find(transaction, id).await?;
                    touch(transaction, row.account_id).await?;
                    let kept = ban::Entity::find_by_id(&row.id).all(transaction).await?.pop();
                    let at = match kept.map(BanNote::from) {
                        Some(BanNote::Banned(ban)) => now.max(ban.from),
                        Some(BanNote::Lifted(_)) | None => now,
                    };
                    let (note, result) = decide(at)?;
                    keep(transaction, &row.id, note).await?;
                    Ok((result, account))
                })
            })
            .await
    }

    /// The bans in force, the next to end first.
    ///
    /// # Errors
    ///
    /// The store's error.
    pub async fn list(self, now: UnixMillis) -> Result<Vec<BanRecord>, AccountError> {
        let find = ban::Entity::find()
            .find_also_related(api_key::Entity)
            .and_also_related(account::Entity)
            .filter(ban::Column::EndsAt.gt(moment_column(now)))
            .order_by_asc(ban::Column::EndsAt);
        let rows = self.0.read(move |db| Box::pin(find.clone().all(db))).await?;
        let records = rows.into_iter().filter_map(|(row, _, account)| {
            let key_id = row.key_id.clone();
            let BanNote::Banned(ban) = row.into() else { return None }; // a lifting may lie in the future
            let bug = || PetStoreError::Bug(format!("a ban is of key {key_id}").into());
            Some(key_id.parse().map_err(|_| bug().into()).map(|key_id| BanRecord {
                key_id,
                account: name_of(account),
                ban,
            }))
        });
        records.collect()
    }
}

async fn keep(transaction: &Session, key_id: &str, note: BanNote) -> Result<(), DbErr> {
    use ban::Column::{EndsAt, ImposedAt, Origin, Reason};
    let replace =
        OnConflict::column(ban::Column::KeyId).update_columns([ImposedAt, EndsAt, Origin, Reason]).to_owned();
    ban::Entity::insert(note_row(key_id, note))
        .on_conflict(replace)
        .exec_without_returning(transaction)
        .await
        .map(drop)
}

async fn forget_what_is_over(transaction: &Session, now: UnixMillis) -> Result<(), DbErr> {
    let over = ban::Entity::find()
        .select_only()
        .column(ban::Column::KeyId)
        .filter(ban::Column::EndsAt.lte(moment_column(now.minus(Ban::MEMORY))))
        .filter(
            Condition::any()
                .add(Expr::col(ban::Column::EndsAt).gt(Expr::col(ban::Column::ImposedAt))) // no lifting
                .add(ban::Column::EndsAt.lte(moment_column(now.minus(Ban::LIFTING_MEMORY)))),
        )
        .limit(SWEEP);
    let over: Vec<String> = over.into_tuple().all(transaction).await?;
    if over.is_empty() {
        return Ok(());
    }
    ban::Entity::delete_many().filter(ban::Column::KeyId.is_in(over)).exec(transaction).await.map(drop)
}

#[cfg(test)]
mod tests;
