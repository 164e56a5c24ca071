//! Facts about refusals: those that gateways have stored, and what refuses requests of an account and its
//! keys now. Windows of limits are in the gateways.

use std::cmp::Reverse;

use petstore_clock::UnixMillis;
use petstore_core::{
    accounts::{
        Account, ApiKeyRecord, BanNote, BanOrigin, KeyId, Quota, Refusal, Remark, Suspension,
        check_request_id, refusal_code, retention, store::Accounts,
    },
    errors::PetStoreError,
};
use petstore_proto::admin::v1::{
    ExplainRefusalRequest, ExplainRefusalResponse, RefusalCause as C, RefusalExplanation,
};

use super::{caller::Call, convert, keys};
use crate::error::Result;

pub(super) async fn explain_refusal(
    call: Call,
    request: ExplainRefusalRequest,
) -> Result<ExplainRefusalResponse> {
    let (now, accounts) = (call.now, call.accounts());
    let recent = now.minus(retention::REFUSALS);
    let ExplainRefusalRequest { account, key_id, request_id } = request;
    let account = convert::account_filter(&account)?;
    if !request_id.is_empty() {
        check_request_id(&request_id).map_err(convert::refused)?;
    }
    let is_by_request = account.is_none() && key_id.is_empty();
    let mut evidence = Vec::new();
    match (account, key_id.as_str(), request_id.as_str()) {
        (None, "", "") => return Err(convert::refuse("account", "is required, or keyId or requestId")),
        (None, "", id) => {
            for refusal in accounts.refusals_of_request(id).await? {
                let (account, key) = account_and_key(accounts, &refusal).await?;
                let keys = key.into_iter().collect();
                evidence.push(Evidence::of(accounts, account, keys, vec![refusal], recent).await?);
            }
        }
        (Some(account), "", id) => {
            let account = accounts.find_account(&account).await?;
            let keys = accounts.keys_of(&account).await?;
            let mut refusals = accounts.refusals_of_account(account.id, recent).await?;
            refusals.retain(|refusal| id.is_empty() || refusal.request_id == id);
            evidence.push(Evidence::of(accounts, Some(account), keys, refusals, recent).await?);
        }
        (None, id, "") => {
            let key = accounts.find_key(convert::key_id(id)?).await?;
            let account = accounts.find_account(&key.account).await?;
            let mut refusals = accounts.refusals_of_account(account.id, recent).await?;
            refusals.retain(|refusal| refusal.key_id == Some(key.id));
            // If the request names a key, its end is explained regardless of its age.
            let since = UnixMillis(0);
            evidence.push(Evidence::of(accounts, Some(account), vec![key], refusals, since).await?);
        }
        _ => return Err(convert::refuse("keyId", "cannot be combined with account or requestId")),
    }

    if !request_id.is_empty() {
        // Requests that are counted with this one have other ids.
        evidence.iter_mut().flat_map(|it| &mut it.refusals).for_each(|refusal| refusal.repeats = 0);
    }
    let is_stored = evidence.iter().any(|it| !it.refusals.is_empty());
    let with_states = request_id.is_empty() || !is_stored;
    let mut explanations: Vec<_> = evidence.iter().flat_map(|it| it.explanations(now, with_states)).collect();
    let begin = |it: &RefusalExplanation| it.start_time.map_or(0, |time| time.seconds);
    explanations.sort_by_key(|it| (!it.in_force, Reverse(begin(it))));
    explanations.truncate(20);
    let named = evidence.first().filter(|_| !is_by_request);
    let is_explained = is_stored || (request_id.is_empty() && !explanations.is_empty());
    let note = if is_explained { "" } else { NOT_STORED }.to_owned();
    let key = named.filter(|_| !key_id.is_empty()).map_or(&[][..], |it| &it.keys);
    Ok(ExplainRefusalResponse {
        explanations,
        note,
        account: named.and_then(|it| it.account.as_ref()).map(convert::account),
        key: keys::with_bans(&call, key).await?.pop(),
    })
}

/// Note about requests of which no refusal is stored.
const NOT_STORED: &str = "No such refusal is stored. Gateways report a sample of their refusals every 5 \
    seconds, and it is kept for 24 hours, so requests may have been refused all the same. Failures other \
    than 401, 403 and 429 are only in the log: search that of the gateways for the request_id, account_id \
    or key_id.";

/// Returns the account and the key of a refused request, if they are known.
async fn account_and_key(
    accounts: &Accounts,
    refusal: &Refusal,
) -> Result<(Option<Account>, Option<ApiKeyRecord>)> {
    let Some(account) = refusal.account else { return Ok((None, None)) };
    let account = match accounts.find_account_by_id(account).await {
        Ok(account) => account,
        Err(PetStoreError::NotFound { .. }) => return Ok((None, None)),
        Err(error) => return Err(error.into()),
    };
    let Some(id) = refusal.key_id else { return Ok((Some(account), None)) };
    Ok((Some(account), accounts.find_key(id).await.ok()))
}

/// An account and those of its keys that matter, with their refusals, newest first. Requests without a known
/// key have no account.
#[derive(Debug)]
struct Evidence {
    account: Option<Account>,
    keys: Vec<ApiKeyRecord>,
    bans: Vec<(KeyId, BanNote)>,
    refusals: Vec<Refusal>,
    /// Revocations and expiries before this time are left out.
    since: UnixMillis,
}

impl Evidence {
    async fn of(
        accounts: &Accounts,
        account: Option<Account>,
        keys: Vec<ApiKeyRecord>,
        refusals: Vec<Refusal>,
        since: UnixMillis,
    ) -> Result<Self> {
        let ids: Vec<KeyId> = keys.iter().map(|key| key.id).collect();
        let bans = accounts.ban_notes(&ids).await?;
        Ok(Self { account, keys, bans, refusals, since })
    }

    fn ban_note(&self, key_id: Option<KeyId>) -> Option<&BanNote> {
        self.bans.iter().find(|(id, _)| Some(*id) == key_id).map(|(_, note)| note)
    }

    /// Returns what refuses requests now.
    fn states(&self, now: UnixMillis) -> Vec<RefusalExplanation> {
        let mut all = Vec::new();
        let mut add =
            |cause: C, key_id: Option<KeyId>, since: UnixMillis, end: Option<UnixMillis>, reason| {
                all.push(RefusalExplanation {
                    cause: cause.into(),
                    key_id: key_id.map(|id| id.to_string()).unwrap_or_default(),
                    start_time: Some(since.to_timestamp()),
                    end_time: end.map(UnixMillis::to_timestamp),
                    in_force: true,
                    reason,
                    ..RefusalExplanation::default()
                });
            };
        if let Some(Suspension { since, reason }) =
            self.account.as_ref().and_then(|it| it.suspension.as_ref())
        {
            let reason = reason.as_ref().map_or("", Remark::as_str).to_owned();
            add(C::AccountSuspended, None, *since, None, reason);
        }
        for key in &self.keys {
            if let Some(at) = key.revoked_at {
                add(C::KeyRevoked, Some(key.id), at, None, String::new());
            } else if let Some(at) = key.expires_at.filter(|at| *at <= now) {
                add(C::KeyExpired, Some(key.id), at, None, String::new());
            }
            if let Some(BanNote::Banned(ban)) = self.ban_note(Some(key.id))
                && ban.until > now
            {
                let is_own = ban.origin == BanOrigin::Limiter;
                let cause = if is_own { C::LimiterBan } else { C::OperatorBan };
                add(cause, Some(key.id), ban.from, Some(ban.until), ban.origin.message().1);
            }
        }
        all
    }

    /// Returns the causes of the stored refusals, and, with `with_states`, what refuses requests now.
    fn explanations(&self, now: UnixMillis, with_states: bool) -> Vec<RefusalExplanation> {
        let mut all = self.states(now);
        for refusal in &self.refusals {
            let past = self.past(refusal, now);
            // A ban in force may be another one than the ban that refused.
            let is_it = |it: &RefusalExplanation| {
                let is_state_of_it = it.end_time.is_none()
                    || it.end_time == refusal.until.map(UnixMillis::to_timestamp)
                    || it.refused_requests > 0;
                (it.cause, &it.key_id) == (past.cause, &past.key_id) && is_state_of_it
            };
            let at = all.iter().position(is_it).unwrap_or_else(|| {
                all.push(past);
                all.len() - 1
            });
            let it = &mut all[at];
            if it.refused_requests == 0 {
                it.limit = refusal.limit.unwrap_or_default();
                it.last_request_id.clone_from(&refusal.request_id);
                it.last_refusal_time = Some(refusal.at.to_timestamp());
            }
            it.refused_requests = it.refused_requests.saturating_add(refusal.repeats).saturating_add(1);
            it.first_refusal_time = Some(refusal.at.to_timestamp());
        }
        let since = Some(self.since.to_timestamp().seconds);
        all.retain(|it| {
            let is_end = matches!(it.cause(), C::KeyRevoked | C::KeyExpired);
            let is_recent = !is_end || it.start_time.map(|start| start.seconds) >= since;
            it.refused_requests > 0 || with_states && is_recent
        });
        for it in &mut all {
            refusal_code(it.cause()).clone_into(&mut it.code);
            it.account = self.account.as_ref().map(|account| account.name.to_string()).unwrap_or_default();
            (it.sentence, it.remedy) = texts(it, self.limit_of_plan(it.cause()));
            it.start_time = it.start_time.or(it.first_refusal_time);
        }
        all
    }

    /// Returns the limit that the account's plan has now.
    fn limit_of_plan(&self, cause: C) -> Option<i64> {
        let Quota { per_minute, per_day, .. } = self.account.as_ref()?.plan.quota();
        i64::try_from(if cause == C::DayLimit { per_day } else { per_minute }).ok()
    }

    /// Returns the cause of a refusal that is no state of the account or its keys, or no longer one.
    fn past(&self, refusal: &Refusal, now: UnixMillis) -> RefusalExplanation {
        let runs = refusal.until.is_some_and(|until| until > now);
        let (in_force, is_of_key) = match refusal.cause {
            // A new plan has another limit, which applies in the current window.
            C::MinuteLimit | C::DayLimit => {
                (runs && refusal.limit == self.limit_of_plan(refusal.cause), false)
            }
            C::UsageLimit | C::AddressLimit => (runs, false),
            C::InsufficientScope | C::AddressNotAllowed => (true, true),
            C::InvalidKey | C::MissingKey => (true, false),
            C::LimiterBan | C::OperatorBan | C::KeyRevoked | C::KeyExpired => (false, true),
            C::AccountSuspended | C::Unspecified => (false, false),
        };
        let is_ban = matches!(refusal.cause, C::LimiterBan | C::OperatorBan);
        let lifted_at = match self.ban_note(refusal.key_id) {
            Some(BanNote::Lifted(at)) if is_ban && Some(*at) < refusal.until => Some(*at),
            _ => None,
        };
        // A ban that has neither ended nor is in force was ended before.
        let end = refusal.until.filter(|_| !is_ban || !runs && lifted_at.is_none());
        RefusalExplanation {
            cause: refusal.cause.into(),
            key_id: refusal.key_id.filter(|_| is_of_key).map(|id| id.to_string()).unwrap_or_default(),
            start_time: refusal.since.map(UnixMillis::to_timestamp),
            end_time: end.map(UnixMillis::to_timestamp),
            lift_time: lifted_at.map(UnixMillis::to_timestamp),
            in_force,
            ..RefusalExplanation::default()
        }
    }
}

/// Returns the sentence, which names the cause and whom it concerns, and the remedy. All else is in fields.
fn texts(it: &RefusalExplanation, limit_of_plan: Option<i64>) -> (String, String) {
    let own = limit_of_plan.unwrap_or_default();
    let name = match it.cause() {
        C::MinuteLimit | C::DayLimit if (1..own).contains(&it.limit) => "LESS_THAN_ITS_LIMIT",
        cause => cause.as_str_name().trim_start_matches("REFUSAL_CAUSE_"),
    };
    let mut rows = include_str!("refusals.md").lines().filter_map(|row| row.strip_prefix("| "));
    let row = rows.find_map(|row| {
        let (cause, texts) = row.trim_end_matches(" |").split_once(" | ")?;
        texts.split_once(" | ").filter(|_| cause == name)
    });
    let (fact, remedy) = row.unwrap_or_default();
    let fact = fact.replace("{limit}", &it.limit.to_string()).replace("{own}", &own.to_string());
    let whose = match it.cause() {
        C::InvalidKey | C::MissingKey => "Request with".to_owned(),
        C::AddressLimit => "Address of the client:".to_owned(),
        _ if it.key_id.is_empty() => format!("Account {}:", it.account),
        _ => format!("Key {}:", it.key_id),
    };
    (format!("{whose} {fact}."), remedy.to_owned())
}
