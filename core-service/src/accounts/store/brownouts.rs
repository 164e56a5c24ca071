//! Rehearsals of the removal of getPet. Functions with a transaction change them in it, for a program that
//! records who makes the change.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use petstore_clock::UnixMillis;
use petstore_database::Session;
use petstore_proto::internal::v1::{self as internal, BrownoutCalendar};
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, EntityTrait, QueryFilter, QueryOrder, SelectTwo,
};

use super::{
    Accounts, accounts,
    changes::next_revision,
    entity::{account, brownout},
};
use crate::{
    accounts::{AccountId, AccountName},
    errors::PetStoreError,
    violations::Violation,
};

/// Maximum number of brownouts that have not ended. Every gateway keeps them all.
const MAX_PLANNED: usize = 32;

/// Maximum length: longer, it would be no rehearsal.
const MAX_LENGTH: Duration = Duration::from_hours(24 * 7);

/// A period in which getPet is refused, as a rehearsal of its removal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Brownout {
    /// Identifier.
    pub id: i64,
    /// Account; `None` for every account.
    pub account: Option<(AccountId, AccountName)>,
    /// Start.
    pub from: UnixMillis,
    /// End, which is later.
    pub until: UnixMillis,
}

/// The last calendar that gateways were sent, with the revision that it belongs to: a change raises the
/// revision, so it is read once after each. Clones share it.
pub(super) type SentCalendar = Arc<Mutex<Option<(i64, BrownoutCalendar)>>>;

impl Accounts {
    /// Returns the brownouts that have not ended, in order of their start.
    ///
    /// # Errors
    ///
    /// If the database fails.
    pub async fn list_brownouts(&self, now: UnixMillis) -> Result<Vec<Brownout>, PetStoreError> {
        let find = planned(now);
        let rows = self.database.read(move |db| Box::pin(find.clone().all(db))).await?;
        Ok(rows.into_iter().map(Brownout::from).collect())
    }

    /// Returns the calendar for gateways at a revision that the store has had.
    ///
    /// # Errors
    ///
    /// If the database fails.
    pub async fn brownout_calendar(
        &self,
        revision: i64,
        now: UnixMillis,
    ) -> Result<BrownoutCalendar, PetStoreError> {
        if let Some((sent_at, calendar)) = &*self.calendar.lock()
            && *sent_at == revision
        {
            return Ok(calendar.clone());
        }
        let message = |brownout: &Brownout| internal::Brownout {
            account_id: brownout.account.as_ref().map_or(0, |(id, _)| id.0),
            starts_at_ms: brownout.from.as_i64(),
            ends_at_ms: brownout.until.as_i64(),
        };
        let brownouts = self.list_brownouts(now).await?.iter().map(message).collect();
        let calendar = BrownoutCalendar { brownouts };
        *self.calendar.lock() = Some((revision, calendar.clone()));
        Ok(calendar)
    }
}

/// Plans a brownout in a transaction, and forgets those that have ended.
///
/// # Errors
///
/// [`PetStoreError::InvalidParameter`] if it has ended, is too long, or too many are planned;
/// [`PetStoreError::AccountNotFound`], or the store's error.
pub async fn plan(
    transaction: &Session,
    account: Option<&AccountName>,
    (from, length): (UnixMillis, Duration),
    now: UnixMillis,
) -> Result<Brownout, PetStoreError> {
    let refuse = |field, rule| PetStoreError::InvalidParameter(Violation::new(field, rule).into());
    let until = from.plus(length);
    if length.is_zero() || length > MAX_LENGTH {
        return Err(refuse("duration", "must be positive, and at most 7 days"));
    }
    if until <= now || until > UnixMillis::LAST {
        return Err(refuse("startTime", "must be such that the end is in the future, before the year 10000"));
    }
    let account = match account {
        Some(name) => Some((accounts::find(transaction, name).await?.id, name.clone())),
        None => None,
    };
    next_revision(transaction, now).await?; // it also makes a concurrent plan wait
    let ended = brownout::Column::EndsAt.lte(now.as_i64());
    brownout::Entity::delete_many().filter(ended).exec(transaction).await?;
    if planned(now).all(transaction).await?.len() >= MAX_PLANNED {
        return Err(refuse("brownouts", "would be more than 32, in force or planned: cancel one"));
    }
    let row = brownout::ActiveModel {
        account_id: Set(account.as_ref().map(|(id, _)| id.0)),
        starts_at: Set(from.as_i64()),
        ends_at: Set(until.as_i64()),
        ..Default::default()
    };
    let id = row.insert(transaction).await?.id;
    Ok(Brownout { id, account, from, until })
}

/// Cancels a brownout in a transaction, and returns it if it had not ended.
///
/// # Errors
///
/// If the database fails.
pub async fn cancel(
    transaction: &Session,
    id: i64,
    now: UnixMillis,
) -> Result<Option<Brownout>, PetStoreError> {
    let find = planned(now).filter(brownout::Column::Id.eq(id));
    let Some(found) = find.one(transaction).await? else { return Ok(None) };
    next_revision(transaction, now).await?;
    brownout::Entity::delete_by_id(id).exec(transaction).await?;
    Ok(Some(found.into()))
}

/// Returns the query for the brownouts that have not ended, with their accounts.
fn planned(now: UnixMillis) -> SelectTwo<brownout::Entity, account::Entity> {
    brownout::Entity::find()
        .find_also_related(account::Entity)
        .filter(brownout::Column::EndsAt.gt(now.as_i64()))
        .order_by_asc(brownout::Column::StartsAt)
        .order_by_asc(brownout::Column::Id)
}

impl From<(brownout::Model, Option<account::Model>)> for Brownout {
    fn from((row, account): (brownout::Model, Option<account::Model>)) -> Self {
        let name = AccountName::stored(account.map(|row| row.name).unwrap_or_default());
        Self {
            id: row.id,
            account: row.account_id.map(|id| (AccountId(id), name)),
            from: UnixMillis::stored(row.starts_at),
            until: UnixMillis::stored(row.ends_at),
        }
    }
}
