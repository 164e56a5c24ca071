//! Bans of keys in the database. Functions with a transaction change a ban in it, for a program that records
//! who makes the change.

use std::time::Duration;

use petstore_clock::UnixMillis;
use petstore_database::Session;
use petstore_proto::internal::v1::ReportBanResponse;
use sea_orm::{
    ColumnTrait, Condition, DbErr, EntityTrait, QueryFilter, QueryOrder, QuerySelect,
    sea_query::{Expr, ExprTrait, OnConflict},
};

use super::{
    Accounts,
    changes::{current_revision, touch},
    entity::{
        account, api_key,
        ban::{self, note_message, note_row},
    },
    keys::{self, name_of},
};
use crate::{
    accounts::{AccountId, AccountName, ApiKeyRecord, Ban, BanNote, BanOrigin, KeyId, Remark, retention},
    errors::PetStoreError,
};

impl Accounts {
    /// Stores a ban that a gateway imposed, unless the stored note outweighs it. Returns the state stored
    /// afterwards, and the revision of that state. An unknown key has no ban.
    ///
    /// # Errors
    ///
    /// If the database fails.
    pub async fn report_ban(
        &self,
        key_id: &str,
        reported: Ban,
        now: UnixMillis,
    ) -> Result<ReportBanResponse, PetStoreError> {
        let answer = move |note: Option<&BanNote>, revision| {
            let (last_ban, bans_lifted_at_ms) = note.map(|note| note_message(note, now)).unwrap_or_default();
            ReportBanResponse { last_ban, revision, bans_lifted_at_ms }
        };
        let key_id = key_id.to_owned();
        self.database
            .transaction(move |transaction| {
                Box::pin(async move {
                    let key = api_key::Entity::find_by_id(&key_id).one(transaction).await?;
                    let kept = ban::Entity::find_by_id(&key_id).one(transaction).await?.map(BanNote::from);
                    let is_news = kept.as_ref().is_none_or(|kept| kept.gives_way_to(&reported));
                    let Some(key) = key.filter(|_| is_news) else {
                        return Ok(answer(kept.as_ref(), current_revision(transaction).await?));
                    };
                    let revision = touch(transaction, key.account_id, now).await?;
                    forget_what_is_over(transaction, now).await?;
                    let note = BanNote::Banned(reported);
                    keep(transaction, &key_id, note.clone()).await?;
                    Ok(answer(Some(&note), revision))
                })
            })
            .await
    }

    /// Returns the bans in force after a position (start and key of the previous page's last ban), newest
    /// first, at most `limit`, of one account if it is given, each with its key and account. A revoked or
    /// expired key has none. The first page includes the total.
    ///
    /// # Errors
    ///
    /// If the database fails.
    pub async fn list_bans(
        &self,
        now: UnixMillis,
        account: Option<AccountId>,
        after: Option<(UnixMillis, KeyId)>,
        limit: Option<u64>,
    ) -> Result<(Vec<(KeyId, AccountName, Ban)>, Option<i64>), PetStoreError> {
        let filters = Condition::all()
            .add(ban::Column::EndsAt.gt(now.as_i64()))
            .add(Expr::col((ban::Entity, ban::Column::EndsAt)).gt(Expr::col(ban::Column::ImposedAt)))
            .add(api_key::Column::RevokedAt.is_null())
            .add(api_key::Column::ExpiresAt.is_null().or(api_key::Column::ExpiresAt.gt(now.as_i64())))
            .add_option(account.map(|id| api_key::Column::AccountId.eq(id.0)));
        let all = ban::Entity::find().inner_join(api_key::Entity).filter(filters.clone());
        let total = if after.is_none() { Some(self.database.count(all).await?) } else { None };
        let after = after.map(|(from, key_id)| {
            let (from, key_id) = (from.as_i64(), key_id.to_string());
            let at_that_moment = ban::Column::ImposedAt.eq(from).and(ban::Column::KeyId.lt(key_id));
            ban::Column::ImposedAt.lt(from).or(at_that_moment)
        });
        let find = ban::Entity::find()
            .find_also_related(api_key::Entity)
            .and_also_related(account::Entity)
            .filter(filters.add_option(after))
            .order_by_desc(ban::Column::ImposedAt)
            .order_by_desc(ban::Column::KeyId)
            .limit(limit);
        let rows = self.database.read(move |db| Box::pin(find.clone().all(db))).await?;
        let bans = rows.into_iter().filter_map(|(row, _, account)| {
            let key_id = row.key_id.parse().ok()?;
            let BanNote::Banned(ban) = row.into() else { return None }; // a lifting may lie in the future
            Some((key_id, name_of(account), ban))
        });
        Ok((bans.collect(), total))
    }

    /// Returns the bans in force of these keys.
    ///
    /// # Errors
    ///
    /// If the database fails.
    pub async fn bans_in_force(
        &self,
        keys: &[KeyId],
        now: UnixMillis,
    ) -> Result<Vec<(KeyId, Ban)>, PetStoreError> {
        let in_force = self.ban_notes(keys).await?.into_iter().filter_map(|(key_id, note)| match note {
            BanNote::Banned(ban) if ban.until > now => Some((key_id, ban)),
            BanNote::Banned(_) | BanNote::Lifted(_) => None,
        });
        Ok(in_force.collect())
    }

    /// Returns the last ban of each of these keys that has had one, or its lifting.
    ///
    /// # Errors
    ///
    /// If the database fails.
    pub async fn ban_notes(&self, keys: &[KeyId]) -> Result<Vec<(KeyId, BanNote)>, PetStoreError> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let find = ban::Entity::find().filter(ban::Column::KeyId.is_in(keys.iter().map(KeyId::to_string)));
        let rows = self.database.all(find).await?;
        Ok(rows.into_iter().filter_map(|row| Some((row.key_id.parse().ok()?, row.into()))).collect())
    }
}

/// Bans a key from now on, in a transaction. The new ban replaces any other. The key's owner is shown the
/// reason. The next ban depends on its length, as after any other. Returns the key, and its ban before and
/// after.
///
/// # Errors
///
/// [`PetStoreError::Invalid`] if `length` is zero, [`PetStoreError::KeyNotFound`],
/// [`PetStoreError::KeyNotActive`], or the store's error.
pub async fn impose(
    transaction: &Session,
    id: KeyId,
    length: Duration,
    reason: Option<Remark>,
    now: UnixMillis,
) -> Result<(ApiKeyRecord, Option<Ban>, Ban), PetStoreError> {
    let (key, kept, at) = find_for_change(transaction, id, now).await?;
    key.check_active(now)?; // a ban of another key would be invisible
    let ban = Ban::new(at, at.plus(length), BanOrigin::Operator(reason))?;
    keep(transaction, &id.to_string(), BanNote::Banned(ban.clone())).await?;
    Ok((key, kept.filter(|kept| kept.until > now), ban))
}

/// Lifts a key's ban and resets its history, so that the next ban is as short as a first one, in a
/// transaction. Applies also to bans that were imposed earlier but are not known here yet. Returns the key,
/// and the ban that was in force, or that still made the next one longer.
///
/// # Errors
///
/// [`PetStoreError::KeyNotFound`], or the store's error.
pub async fn lift(
    transaction: &Session,
    id: KeyId,
    now: UnixMillis,
) -> Result<(ApiKeyRecord, Option<Ban>), PetStoreError> {
    let (key, kept, at) = find_for_change(transaction, id, now).await?;
    keep(transaction, &id.to_string(), BanNote::Lifted(at)).await?;
    Ok((key, kept.filter(|kept| now < kept.until.plus(retention::BANS))))
}

/// Returns a key whose bans an operator changes, its last ban unless it was lifted, and the time of the
/// change, regardless of the stored note. This is `now`, or the time at which the stored ban was imposed if
/// that is later because of clock skew: the newer note holds.
async fn find_for_change(
    transaction: &Session,
    id: KeyId,
    now: UnixMillis,
) -> Result<(ApiKeyRecord, Option<Ban>, UnixMillis), PetStoreError> {
    let key = keys::find(transaction, id).await?;
    touch(transaction, key.account_id.0, now).await?;
    let kept = ban::Entity::find_by_id(id.to_string()).one(transaction).await?;
    Ok(match kept.map(BanNote::from) {
        Some(BanNote::Banned(ban)) => {
            let at = now.max(ban.from);
            (key, Some(ban), at)
        }
        Some(BanNote::Lifted(_)) | None => (key, None, now),
    })
}

async fn keep(transaction: &Session, key_id: &str, note: BanNote) -> Result<(), DbErr> {
    use ban::Column::{EndsAt, ImposedAt, Origin, Reason};
    let replace =
        OnConflict::column(ban::Column::KeyId).update_columns([ImposedAt, EndsAt, Origin, Reason]).to_owned();
    let insert = ban::Entity::insert(note_row(key_id, note)).on_conflict(replace);
    insert.exec_without_returning(transaction).await.map(drop)
}

async fn forget_what_is_over(transaction: &Session, now: UnixMillis) -> Result<(), DbErr> {
    let over = ban::Entity::find()
        .select_only()
        .column(ban::Column::KeyId)
        .filter(ban::Column::EndsAt.lte(now.minus(retention::BANS).as_i64()))
        .filter(
            Condition::any()
                .add(Expr::col(ban::Column::EndsAt).gt(Expr::col(ban::Column::ImposedAt))) // no lifting
                .add(ban::Column::EndsAt.lte(now.minus(retention::LIFTINGS).as_i64())),
        )
        .limit(100); // the next report deletes more
    let over: Vec<String> = over.into_tuple().all(transaction).await?;
    if over.is_empty() {
        return Ok(());
    }
    ban::Entity::delete_many().filter(ban::Column::KeyId.is_in(over)).exec(transaction).await.map(drop)
}

#[cfg(test)]
mod tests;
