//! Table `refusals`.

use petstore_clock::UnixMillis;
use sea_orm::{ActiveValue::NotSet, Set, entity::prelude::*};

use crate::accounts::{AccountId, Refusal, refusal_cause};

#[sea_orm::model]
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "refusals")]
pub(crate) struct Model {
    #[sea_orm(primary_key)]
    pub id: i64,
    pub request_id: String,
    pub refused_at: i64,
    pub cause: i64,
    pub account_id: i64,
    pub key_id: Option<String>,
    pub quota: Option<i64>,
    pub since: Option<i64>,
    pub until: Option<i64>,
    pub repeats: i64,
}

impl ActiveModelBehavior for ActiveModel {}

impl Model {
    /// Returns the refusal in a row; `None` if a newer release wrote it.
    pub(crate) fn refusal(self) -> Option<Refusal> {
        Some(Refusal {
            request_id: self.request_id,
            at: UnixMillis::stored(self.refused_at),
            cause: refusal_cause(self.cause)?,
            account: Some(AccountId(self.account_id)).filter(|account| account.0 != 0),
            key_id: self.key_id.and_then(|id| id.parse().ok()),
            limit: self.quota,
            since: self.since.map(UnixMillis::stored),
            until: self.until.map(UnixMillis::stored),
            repeats: self.repeats,
        })
    }
}

/// Returns the row for a refusal.
pub(crate) fn row(refusal: Refusal) -> ActiveModel {
    let Refusal { request_id, at, cause, account, key_id, limit, since, until, repeats } = refusal;
    ActiveModel {
        id: NotSet,
        request_id: Set(request_id),
        refused_at: Set(at.as_i64()),
        cause: Set(i32::from(cause).into()),
        account_id: Set(account.map_or(0, |account| account.0)),
        key_id: Set(key_id.map(|id| id.to_string())),
        quota: Set(limit),
        since: Set(since.map(UnixMillis::as_i64)),
        until: Set(until.map(UnixMillis::as_i64)),
        repeats: Set(repeats),
    }
}
