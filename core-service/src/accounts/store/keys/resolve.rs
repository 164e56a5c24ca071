//! Gateways' lookups of keys and reports of their use.

use std::collections::BTreeMap;

use petstore_caller::api_key::{Environment, KeyDigest};
use petstore_clock::UnixMillis;
use petstore_database::revision;
use petstore_proto::internal::v1::{FoundKey, ResolveKeysResponse, ResolvedKey, Suspension};
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, EntityTrait, FromQueryResult, IdenStatic, Iterable, QueryResult,
    sea_query::{Expr, ExprTrait, IntoIden, IntoValueTuple, JoinType, Query, SelectStatement, TableRef, any},
};

use crate::{
    accounts::{
        BanNote, KeyId, KeyState,
        store::{
            Accounts,
            changes::revision_missing,
            entity::{
                account::{self, stored_plan},
                api_key,
                ban::{self, note_message},
            },
        },
    },
    errors::PetStoreError,
};

impl Accounts {
    /// Returns the state at `now` of the keys with these digests (and of that environment, if one is given),
    /// and the revision of that state. One statement reads both, so that they are consistent. Digests without
    /// a key are left out. It is not slower than single lookups: `PostgreSQL` reads the whole table only if
    /// the table is so small that this is cheaper than its index.
    ///
    /// # Errors
    ///
    /// If the database fails.
    pub async fn resolve_keys(
        &self,
        digests: &[KeyDigest],
        environment: Option<Environment>,
        now: UnixMillis,
    ) -> Result<ResolveKeysResponse, PetStoreError> {
        let of_environment = environment.map(|environment| {
            Expr::col((api_key::Entity, api_key::Column::Prefix)).eq(environment.key_prefix())
        });
        let of_digests = Expr::col((api_key::Entity, api_key::Column::Digest)).is_in(padded(digests));
        self.resolve(Condition::all().add(of_digests).add_option(of_environment), now).await
    }

    /// Returns the state at `now` of the key with this identifier, as [`Self::resolve_keys`] does.
    ///
    /// # Errors
    ///
    /// If the database fails.
    pub async fn resolve_key(
        &self,
        id: KeyId,
        now: UnixMillis,
    ) -> Result<ResolveKeysResponse, PetStoreError> {
        let is_it = Expr::col((api_key::Entity, api_key::Column::Id)).eq(id.to_string());
        self.resolve(Condition::all().add(is_it), now).await
    }

    async fn resolve(&self, which: Condition, now: UnixMillis) -> Result<ResolveKeysResponse, PetStoreError> {
        let mut query = Query::select();
        select_all::<api_key::Entity>(&mut query, "key_");
        select_all::<account::Entity>(&mut query, "account_");
        select_all::<ban::Entity>(&mut query, "ban_");
        query
            .expr_as(Expr::col((revision::Entity, revision::Column::Value)), "revision")
            .from(revision::Entity)
            .join(JoinType::LeftJoin, api_key::Entity, which)
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
            .and_where(Expr::col((revision::Entity, revision::Column::Id)).eq(1));
        let rows = self.database.rows(query).await?;
        let revision = rows.first().ok_or_else(revision_missing)?.try_get("", "revision")?;
        let keys = rows.iter().filter_map(|row| found_key(row, now).transpose()).collect::<Result<_, _>>()?;
        Ok(ResolveKeysResponse { keys, revision, now_ms: Some(now.as_i64()) })
    }

    /// Records the times of last use of keys. Never sets a key's time back. Unknown keys are skipped. It is
    /// one statement for any number of keys: a report has to fit into the deadline of a call.
    ///
    /// # Errors
    ///
    /// If the database fails.
    pub async fn record_key_use(&self, uses: &[(String, UnixMillis)]) -> Result<(), PetStoreError> {
        let mut latest = BTreeMap::<&str, i64>::new(); // a row must not be updated twice by one statement
        for (id, used_at) in uses {
            let used_at = used_at.as_i64();
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
        self.database
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

/// Selects every column of a table, each with a prefix.
fn select_all<E: EntityTrait>(query: &mut SelectStatement, prefix: &str) {
    for column in E::Column::iter() {
        query.expr_as(Expr::col(column.as_column_ref()), format!("{prefix}{}", column.as_str()));
    }
}

/// Returns the key in the row; `None` if the row only has the revision.
fn found_key(row: &QueryResult, now: UnixMillis) -> Result<Option<FoundKey>, PetStoreError> {
    let key = <Option<api_key::Model>>::from_query_result(row, "key_")?;
    let account = <Option<account::Model>>::from_query_result(row, "account_")?;
    let note = <Option<ban::Model>>::from_query_result(row, "ban_")?.map(BanNote::from);
    let Some((key, account)) = key.zip(account) else { return Ok(None) };
    let moment = |column: Option<i64>| column.map(UnixMillis::stored);
    let state = match KeyState::at(now, moment(key.revoked_at), moment(key.expires_at)) {
        // Gateways that do not know suspensions are sent a revoked key.
        KeyState::Active if account.suspended_at.is_some() => KeyState::Revoked,
        state => state,
    };
    let plan = stored_plan(&account.plan, [account.per_minute, account.per_day])?;
    let int64 = |number| i64::try_from(number).unwrap_or(i64::MAX);
    let (last_ban, bans_lifted_at_ms) = note.map(|note| note_message(&note, now)).unwrap_or_default();
    let resolved = ResolvedKey {
        key_id: key.id,
        account_id: account.id,
        state: state as i32,
        expires_at_ms: key.expires_at,
        plan: plan.number(),
        per_minute: int64(plan.quota().per_minute),
        per_day: int64(plan.quota().per_day),
        last_ban,
        bans_lifted_at_ms,
        // Not of a key that stays revoked.
        suspension: account
            .suspended_at
            .filter(|_| key.revoked_at.is_none())
            .map(|_| Suspension { reason: account.suspend_reason.unwrap_or_default() }),
        last_four: key.last_four,
        label: key.label.unwrap_or_default(),
        read_only: key.access.is_some(), // NULL is full access
        // The gateway parses them: a malformed one makes the answer invalid.
        allowed_addresses: key
            .allowed_addresses
            .map(|blocks| blocks.split(',').map(str::to_owned).collect())
            .unwrap_or_default(),
    };
    Ok(Some(FoundKey { digest: key.digest, key: Some(resolved) }))
}
