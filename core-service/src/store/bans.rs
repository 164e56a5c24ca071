//! Bans of keys in the database.

use std::time::Duration;

use petstore_clock::UnixMillis;
use petstore_database::Session;
use petstore_proto::{admin::v1 as admin, internal::v1::ReportBanResponse};
use sea_orm::{
    ColumnTrait, Condition, DbErr, EntityTrait, QueryFilter, QueryOrder, QuerySelect,
    sea_query::{Expr, ExprTrait, OnConflict},
};

use super::{
    Store, audit,
    changes::{current_revision, touch},
    entity::{
        account, api_key,
        ban::{self, ban_message, note_message, note_row},
        moment_column,
    },
    keys::{self, name_of},
};
use crate::domain::{
    AccountId, Actor, ApiKeyRecord, Audited, Ban, BanNote, BanOrigin, Change, KEPT, KeyId, PetStoreError,
    Remark, ban_json,
};

impl Store {
    /// Stores a ban that a gateway imposed, unless the stored note outweighs it. Returns the state stored
    /// afterwards, and the revision of that state. An unknown key has no ban.
    pub(crate) async fn report_ban(
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
                    let key = api_key::Entity::find_by_id(&key_id).all(transaction).await?.pop();
                    let kept =
                        ban::Entity::find_by_id(&key_id).all(transaction).await?.pop().map(BanNote::from);
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

    /// Bans a key from now on. The new ban replaces any other. The key's owner is shown the reason. The next
    /// ban depends on its length, as after any other.
    ///
    /// # Errors
    ///
    /// [`PetStoreError::Invalid`] if `length` is zero, [`PetStoreError::KeyNotFound`],
    /// [`PetStoreError::KeyNotActive`], or the store's error.
    pub async fn add_ban(
        &self,
        actor: &Actor,
        id: KeyId,
        length: Duration,
        reason: Option<Remark>,
        now: UnixMillis,
    ) -> Result<admin::Ban, PetStoreError> {
        let decide = move |key: &ApiKeyRecord, from: UnixMillis| {
            key.check_active(now)?; // a ban of another key would be invisible
            Ok(BanNote::Banned(Ban::new(from, from.plus(length), BanOrigin::Operator(reason))?))
        };
        let (note, key) = self.set_ban(actor, id, "CreateBan", now, decide).await?;
        match note {
            BanNote::Banned(ban) => Ok(ban_message(id.to_string(), &key.account, &ban)),
            BanNote::Lifted(_) => Err(PetStoreError::Bug("a ban that was imposed is lifted".into())),
        }
    }

    /// Lifts a key's ban and resets its history, so that the next ban is as short as a first one. Applies
    /// also to bans that were imposed earlier but are not known here yet.
    ///
    /// # Errors
    ///
    /// [`PetStoreError::KeyNotFound`], or the store's error.
    pub async fn lift_ban(&self, actor: &Actor, id: KeyId, now: UnixMillis) -> Result<(), PetStoreError> {
        self.set_ban(actor, id, "LiftBan", now, |_, at| Ok(BanNote::Lifted(at))).await.map(drop)
    }

    /// Bans a key or lifts its bans, regardless of the stored note. `decide` makes the note from its time.
    /// This is `now`, or the time at which the stored ban was imposed if that is later because of clock skew:
    /// the newer note holds. Returns the key too.
    async fn set_ban(
        &self,
        actor: &Actor,
        id: KeyId,
        action: &'static str,
        now: UnixMillis,
        decide: impl FnOnce(&ApiKeyRecord, UnixMillis) -> Result<BanNote, PetStoreError> + Send + 'static,
    ) -> Result<(BanNote, ApiKeyRecord), PetStoreError> {
        let actor = actor.clone();
        self.change(&actor.clone(), now, move |transaction| {
            Box::pin(async move {
                let key = keys::find(transaction, id).await?;
                touch(transaction, key.account_id.0, now).await?;
                let kept = ban::Entity::find_by_id(id.to_string()).all(transaction).await?.pop();
                let kept = kept.map(BanNote::from);
                let at = match &kept {
                    Some(BanNote::Banned(ban)) => now.max(ban.from),
                    Some(BanNote::Lifted(_)) | None => now,
                };
                let note = decide(&key, at)?;
                keep(transaction, &id.to_string(), note.clone()).await?;
                let in_force = |note: &BanNote| match note {
                    BanNote::Banned(ban) if ban.until > now => Some(ban_json(ban)),
                    BanNote::Banned(_) | BanNote::Lifted(_) => None,
                };
                let change = Change {
                    action,
                    subject: key.subject(),
                    before: kept.as_ref().and_then(in_force),
                    after: in_force(&note),
                };
                audit::record(transaction, &actor, now, change).await?;
                Ok((note, key))
            })
        })
        .await
    }

    /// Returns the bans in force after a position (start and key of the previous page's last ban), newest
    /// first, at most `limit`, of one account if it is given, each with its start. A revoked or expired key
    /// has none. The first page includes the total.
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
    ) -> Result<(Vec<(UnixMillis, admin::Ban)>, Option<i64>), PetStoreError> {
        let filters = Condition::all()
            .add(ban::Column::EndsAt.gt(moment_column(now)))
            .add(Expr::col((ban::Entity, ban::Column::EndsAt)).gt(Expr::col(ban::Column::ImposedAt)))
            .add(api_key::Column::RevokedAt.is_null())
            .add(api_key::Column::ExpiresAt.is_null().or(api_key::Column::ExpiresAt.gt(moment_column(now))))
            .add_option(account.map(|id| api_key::Column::AccountId.eq(id.0)));
        let all = ban::Entity::find().inner_join(api_key::Entity).filter(filters.clone());
        let total = if after.is_none() { Some(self.database.count(all).await?) } else { None };
        let after = after.map(|(from, key_id)| {
            let (from, key_id) = (moment_column(from), key_id.to_string());
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
            let key_id = row.key_id.clone();
            let BanNote::Banned(ban) = row.into() else { return None }; // a lifting may lie in the future
            Some((ban.from, ban_message(key_id, &name_of(account), &ban)))
        });
        Ok((bans.collect(), total))
    }

    /// Returns the bans in force of these keys.
    pub(crate) async fn bans_in_force(
        &self,
        keys: &[KeyId],
        now: UnixMillis,
    ) -> Result<Vec<(KeyId, Ban)>, PetStoreError> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let find = ban::Entity::find()
            .filter(ban::Column::KeyId.is_in(keys.iter().map(KeyId::to_string)))
            .filter(ban::Column::EndsAt.gt(moment_column(now)));
        let rows = self.database.all(find).await?;
        let in_force = rows.into_iter().filter_map(|row| {
            let key_id = row.key_id.parse().ok()?;
            match row.into() {
                BanNote::Banned(ban) => Some((key_id, ban)),
                BanNote::Lifted(_) => None,
            }
        });
        Ok(in_force.collect())
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
        .filter(ban::Column::EndsAt.lte(moment_column(now.minus(KEPT.bans))))
        .filter(
            Condition::any()
                .add(Expr::col(ban::Column::EndsAt).gt(Expr::col(ban::Column::ImposedAt))) // no lifting
                .add(ban::Column::EndsAt.lte(moment_column(now.minus(KEPT.liftings)))),
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
