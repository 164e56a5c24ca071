//! Gateways' look-ups of keys and reports of their use.

use std::collections::BTreeMap;

use petstore_api_key::{Environment, KeyDigest};
use petstore_clock::UnixMillis;
use sea_orm::{
    Condition, ConnectionTrait, FromQueryResult,
    sea_query::{Expr, ExprTrait, IntoIden, IntoValueTuple, JoinType, Query, TableRef, any},
};

use super::Keys;
use crate::{
    domain::{AccountId, BanNote, PetStoreError, Plan, Suspension},
    store::{
        changes::revision_missing,
        entity::{
            account::{self, moment_column, stored_moment, stored_plan, stored_suspension},
            api_key,
            ban::{self, stored_note},
            revision,
        },
    },
};

/// State of a key that a gateway needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResolvedKey {
    pub(crate) key_id: String,
    pub(crate) account_id: AccountId,
    pub(crate) plan: Plan,
    pub(crate) expires_at: Option<UnixMillis>,
    pub(crate) revoked_at: Option<UnixMillis>,
    pub(crate) ban: Option<BanNote>,
    pub(crate) suspension: Option<Suspension>,
}

impl Keys<'_> {
    /// Returns the state of the key with this digest, and a revision, as [`Self::resolve_all`] does.
    #[cfg(test)]
    pub(crate) async fn resolve(
        self,
        digest: KeyDigest,
        environment: Option<Environment>,
    ) -> Result<(Option<ResolvedKey>, i64), PetStoreError> {
        let (mut found, revision) = self.resolve_all(&[digest], environment).await?;
        Ok((found.pop().map(|(_, key)| key), revision))
    }

    /// Returns the state of the keys with these digests (and of that environment, if one is given), and the
    /// revision as of which it is true. One statement reads both, so that they are consistent. Digests
    /// without a key are left out. It is not slower than single look-ups: `PostgreSQL` reads the whole table
    /// only if the table is so small that this is cheaper than its index.
    pub(crate) async fn resolve_all(
        self,
        digests: &[KeyDigest],
        environment: Option<Environment>,
    ) -> Result<(Vec<(KeyDigest, ResolvedKey)>, i64), PetStoreError> {
        let query = Query::select()
            .expr_as(Expr::col((revision::Entity, revision::Column::Value)), "revision")
            .expr_as(Expr::col((api_key::Entity, api_key::Column::Id)), "key_id")
            .columns([
                (api_key::Entity, api_key::Column::Digest),
                (api_key::Entity, api_key::Column::AccountId),
                (api_key::Entity, api_key::Column::ExpiresAt),
                (api_key::Entity, api_key::Column::RevokedAt),
            ])
            .columns([
                (account::Entity, account::Column::Plan),
                (account::Entity, account::Column::PerMinute),
                (account::Entity, account::Column::PerDay),
                (account::Entity, account::Column::SuspendedAt),
                (account::Entity, account::Column::SuspendReason),
            ])
            .columns([
                (ban::Entity, ban::Column::ImposedAt),
                (ban::Entity, ban::Column::EndsAt),
                (ban::Entity, ban::Column::Origin),
                (ban::Entity, ban::Column::Reason),
            ])
            .from(revision::Entity)
            .join(
                JoinType::LeftJoin,
                api_key::Entity,
                Condition::all()
                    .add(Expr::col((api_key::Entity, api_key::Column::Digest)).is_in(padded(digests)))
                    .add_option(environment.map(|environment| {
                        Expr::col((api_key::Entity, api_key::Column::Prefix)).eq(environment.key_prefix())
                    })),
            )
            .join(
                JoinType::LeftJoin,
                account::Entity,
                Expr::col((account::Entity, account::Column::Id))
                    .equals((api_key::Entity, api_key::Column::AccountId)),
            )
            .join(
                JoinType::LeftJoin,
                ban::Entity,
                Expr::col((ban::Entity, ban::Column::KeyId)).equals((api_key::Entity, api_key::Column::Id)),
            )
            .and_where(Expr::col((revision::Entity, revision::Column::Id)).eq(1))
            .take();
        let rows =
            self.store.read(move |db| db.query_all_raw(db.get_database_backend().build(&query))).await?;
        let rows =
            rows.iter().map(|row| ResolvedRow::from_query_result(row, "")).collect::<Result<Vec<_>, _>>()?;
        let revision = rows.first().ok_or_else(revision_missing)?.revision;
        let found = rows.into_iter().filter_map(|row| row.key().transpose());
        Ok((found.collect::<Result<_, _>>()?, revision))
    }

    /// Records the times of last use of keys. Never sets a key's time back. Unknown keys are skipped. It is
    /// one statement for any number of keys: a report has to fit into the deadline of a call.
    pub(crate) async fn record_use(self, uses: &[(String, UnixMillis)]) -> Result<(), PetStoreError> {
        let mut latest = BTreeMap::<&str, i64>::new(); // a row must not be updated twice by one statement
        for (id, used_at) in uses {
            let used_at = moment_column(*used_at);
            latest.entry(id).and_modify(|known| *known = Ord::max(*known, used_at)).or_insert(used_at);
        }
        if latest.is_empty() {
            return Ok(());
        }
        // Both engines name the columns of a list of values like this.
        let (id, used_at) = (Expr::col(("uses", "column1")), Expr::col(("uses", "column2")));
        let last_used_at = || Expr::col((api_key::Entity, api_key::Column::LastUsedAt));
        let values = latest.into_iter().map(IntoValueTuple::into_value_tuple).collect();
        let update = Query::update()
            .table(api_key::Entity)
            .value(api_key::Column::LastUsedAt, used_at.clone())
            .from(TableRef::ValuesList(values, "uses".into_iden()))
            .and_where(Expr::col((api_key::Entity, api_key::Column::Id)).eq(id))
            .cond_where(any![last_used_at().is_null(), last_used_at().lt(used_at)])
            .take();
        // Such transactions run one at a time: two reports could wait for each other's rows.
        self.store
            .transaction(move |transaction| {
                Box::pin(async move { Ok(transaction.execute(&update).await.map(drop)?) })
            })
            .await
    }
}

/// Returns the digests, with the last one repeated until their number is a power of two. So there are few
/// different statements, and the connections keep all of them prepared.
fn padded(digests: &[KeyDigest]) -> impl Iterator<Item = Vec<u8>> {
    let padding = digests.len().next_power_of_two() - digests.len();
    let repeated = digests.last().into_iter().cycle().take(padding);
    digests.iter().chain(repeated).map(|digest| digest.0.to_vec())
}

#[derive(FromQueryResult)]
struct ResolvedRow {
    revision: i64,
    key_id: Option<String>,
    digest: Option<Vec<u8>>,
    account_id: Option<i64>,
    expires_at: Option<i64>,
    revoked_at: Option<i64>,
    plan: Option<String>,
    per_minute: Option<i64>,
    per_day: Option<i64>,
    suspended_at: Option<i64>,
    suspend_reason: Option<String>,
    imposed_at: Option<i64>,
    ends_at: Option<i64>,
    origin: Option<String>,
    reason: Option<String>,
}

impl ResolvedRow {
    /// Returns the key; `None` if the row only states that there is none.
    fn key(self) -> Result<Option<(KeyDigest, ResolvedKey)>, PetStoreError> {
        let (Some(key_id), Some(digest), Some(account_id), Some(plan)) =
            (self.key_id, self.digest, self.account_id, self.plan)
        else {
            return Ok(None);
        };
        let digest =
            digest.try_into().map_err(|_| PetStoreError::Bug("a digest is not 32 bytes long".into()))?;
        let key = ResolvedKey {
            key_id,
            account_id: AccountId(account_id),
            plan: stored_plan(&plan, self.per_minute, self.per_day)?,
            suspension: stored_suspension(self.suspended_at, self.suspend_reason),
            expires_at: self.expires_at.map(stored_moment),
            revoked_at: self.revoked_at.map(stored_moment),
            ban: self.imposed_at.zip(self.ends_at).zip(self.origin).map(|((imposed_at, ends_at), origin)| {
                stored_note(imposed_at, ends_at, &origin, self.reason)
            }),
        };
        Ok(Some((KeyDigest(digest), key)))
    }
}
