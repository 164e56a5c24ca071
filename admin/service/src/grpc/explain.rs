//! Explanations of refusals, from the refusals that gateways recorded and the state of the account and its
//! keys.

use std::cmp::Reverse;

use petstore_clock::UnixMillis;
use petstore_core::{
    accounts::{
        Account, ApiKeyRecord, Ban, BanOrigin, Day, KEPT, KeyId, Refusal, Remark, check_request_id,
        refusal_code, store::Accounts,
    },
    domain::PetStoreError,
};
use petstore_proto::admin::v1::{
    ExplainRefusalRequest, ExplainRefusalResponse, RefusalCause as C, RefusalExplanation,
};

use super::{caller::Call, convert};
use crate::error::Result;

pub(super) async fn explain(call: Call, request: ExplainRefusalRequest) -> Result<ExplainRefusalResponse> {
    let (now, accounts) = (call.now, call.accounts());
    let recent = now.minus(KEPT.refusals);
    let ExplainRefusalRequest { account, key_id, request_id } = request;
    let account = convert::account_filter(&account)?;
    if !request_id.is_empty() {
        check_request_id(&request_id).map_err(convert::refused)?;
    }
    let mut subjects: Vec<(State, Vec<Refusal>)> = Vec::new();
    let (name, in_log) = match (account, key_id.as_str(), request_id.as_str()) {
        (None, "", "") => return Err(convert::refuse("account", "is required, or keyId or requestId")),
        (None, "", id) => {
            for refusal in accounts.refusals_of_request(id).await? {
                subjects.push((State::of_refusal(accounts, &refusal, recent).await?, vec![refusal]));
            }
            (format!("request {id}"), format!("request_id={id}"))
        }
        (Some(account), "", id) => {
            let account = accounts.find_account(&account).await?;
            let keys = accounts.keys_of(&account).await?;
            let mut refusals = accounts.refusals_of_account(account.id, recent).await?;
            refusals.retain(|refusal| id.is_empty() || refusal.request_id == id);
            let (name, in_log) = match id {
                "" => (format!("account {}", account.name), format!("account_id={}", account.id.0)),
                id => (format!("request {id} of account {}", account.name), format!("request_id={id}")),
            };
            subjects.push((State::of(accounts, account, keys, recent).await?, refusals));
            (name, in_log)
        }
        (None, id, "") => {
            let key = accounts.find_key(convert::key_id(id)?).await?;
            let account = accounts.find_account(&key.account).await?;
            let mut refusals = accounts.refusals_of_account(account.id, recent).await?;
            refusals.retain(|refusal| refusal.key_id == Some(key.id));
            // If the request names a key, its end is explained regardless of its age.
            subjects.push((State::of(accounts, account, vec![key], UnixMillis(0)).await?, refusals));
            (format!("key {id}"), format!("key_id={id}"))
        }
        _ => return Err(convert::refuse("keyId", "cannot be combined with account or requestId")),
    };

    if !request_id.is_empty() {
        // Requests that are counted with this one have other ids.
        subjects.iter_mut().flat_map(|(_, refusals)| refusals).for_each(|refusal| refusal.repeats = 0);
    }
    let is_kept = subjects.iter().any(|(_, refusals)| !refusals.is_empty());
    let mut explanations = Vec::new();
    for (state, refusals) in &subjects {
        state.explain_refusals(refusals, now, &mut explanations);
        if request_id.is_empty() || !is_kept {
            state.explain_now(now, &mut explanations);
        }
    }
    let begin = |it: &RefusalExplanation| it.start_time.map_or(0, |time| time.seconds);
    explanations.sort_by_key(|it| (!it.in_force, Reverse(begin(it))));
    explanations.truncate(20);
    let note = if is_kept || (request_id.is_empty() && !explanations.is_empty()) {
        String::new()
    } else {
        let account = subjects.first().and_then(|(state, _)| state.account.as_ref());
        note(&name, &in_log, account, explanations.iter().any(|it| it.in_force))
    };
    Ok(ExplainRefusalResponse { explanations, note })
}

/// Returns the note for requests of which no refusal is stored.
fn note(requests: &str, in_log: &str, account: Option<&Account>, is_refused_now: bool) -> String {
    let state = match account.map(|account| &account.name) {
        None => "Name the account as well to see its state.".to_owned(),
        Some(name) if is_refused_now => {
            format!("The explanations say what account {name} is being refused for.")
        }
        Some(name) => {
            format!("Account {name} is not suspended, and none of its keys is being rejected.")
        }
    };
    format!(
        "No record found for {requests}. Only a sample of refusals is kept, for 24 hours and with a delay of \
         some seconds, so it may still have been refused. Responses 400, 404, 405, 413, 415 and 5xx are only \
         in the log. {state} Search the log of the gateways for {in_log}."
    )
}

/// State of an account and of those of its keys that matter. Requests without a known key have no account.
#[derive(Debug, Default)]
struct State {
    account: Option<Account>,
    keys: Vec<ApiKeyRecord>,
    /// Bans in force, and those that ended recently.
    bans: Vec<(KeyId, Ban)>,
    /// Revocations and expiries before this time are left out.
    recent: UnixMillis,
}

/// A state of an account or key that refuses requests.
#[derive(Clone, Copy, Debug)]
struct Fact<'a> {
    since: UnixMillis,
    until: Option<UnixMillis>,
    reason: Option<&'a Remark>,
}

/// Refusals of one account for one cause, of one key if the cause is one of keys.
#[derive(Debug)]
struct Group<'a> {
    key_id: Option<KeyId>,
    newest: &'a Refusal,
    /// Time of the first refusal.
    first: UnixMillis,
    requests: i64,
}

impl State {
    async fn of(
        accounts: &Accounts,
        account: Account,
        keys: Vec<ApiKeyRecord>,
        recent: UnixMillis,
    ) -> Result<Self> {
        let ids: Vec<KeyId> = keys.iter().map(|key| key.id).collect();
        let bans = accounts.bans_in_force(&ids, recent).await?;
        Ok(Self { account: Some(account), keys, bans, recent })
    }

    async fn of_refusal(accounts: &Accounts, refusal: &Refusal, recent: UnixMillis) -> Result<Self> {
        let Some(account) = refusal.account else { return Ok(Self::default()) };
        let account = match accounts.find_account_by_id(account).await {
            Ok(account) => account,
            Err(PetStoreError::AccountIdNotFound(_)) => return Ok(Self::default()),
            Err(error) => return Err(error.into()),
        };
        let key = match refusal.key_id {
            Some(id) => accounts.find_key(id).await.ok(),
            None => None,
        };
        Self::of(accounts, account, key.into_iter().collect(), recent).await
    }

    /// Adds the explanations of refusals, which come newest first.
    fn explain_refusals(&self, refusals: &[Refusal], now: UnixMillis, all: &mut Vec<RefusalExplanation>) {
        for group in groups(refusals) {
            let (cause, key_id) = (group.newest.cause, group.key_id);
            // A ban in force may be another one than the ban that refused.
            let fact = self.fact(cause, key_id);
            let fact = fact.filter(|fact| fact.until.is_none() || fact.until == group.newest.until);
            all.push(self.explanation(cause, key_id, fact, Some(&group), now));
        }
    }

    /// Adds explanations of states that refuse requests now, if they are not explained yet.
    fn explain_now(&self, now: UnixMillis, all: &mut Vec<RefusalExplanation>) {
        let of_keys = self.keys.iter().flat_map(|key| {
            let end = if key.revoked_at.is_some() { C::KeyRevoked } else { C::KeyExpired };
            [end, C::LimiterBan, C::OperatorBan].map(|cause| (cause, Some(key.id)))
        });
        for (cause, key_id) in [(C::AccountSuspended, None)].into_iter().chain(of_keys) {
            let Some(fact) = self.fact(cause, key_id) else { continue };
            let is_old = matches!(cause, C::KeyRevoked | C::KeyExpired) && fact.since < self.recent;
            let current = self.explanation(cause, key_id, Some(fact), None, now);
            let is_there = all.iter().any(|it| {
                (it.cause, &it.key_id, it.start_time) == (current.cause, &current.key_id, current.start_time)
            });
            if current.in_force && !is_old && !is_there {
                all.push(current);
            }
        }
    }

    /// Returns the state that refuses requests for this cause.
    fn fact(&self, cause: C, key_id: Option<KeyId>) -> Option<Fact<'_>> {
        let lasting = |since| Fact { since, until: None, reason: None };
        let key = || self.keys.iter().find(|key| Some(key.id) == key_id);
        match cause {
            C::AccountSuspended => {
                let suspension = self.account.as_ref()?.suspension.as_ref()?;
                Some(Fact { reason: suspension.reason.as_ref(), ..lasting(suspension.since) })
            }
            C::KeyRevoked => key()?.revoked_at.map(lasting),
            C::KeyExpired => key()?.expires_at.map(lasting),
            C::LimiterBan | C::OperatorBan => {
                let (_, Ban { from, until, origin }) =
                    self.bans.iter().find(|(id, _)| Some(*id) == key_id)?;
                let (by, reason) = match origin {
                    BanOrigin::Limiter => (C::LimiterBan, None),
                    BanOrigin::Operator(reason) => (C::OperatorBan, reason.as_ref()),
                };
                (by == cause).then_some(Fact { since: *from, until: Some(*until), reason })
            }
            C::InsufficientScope
            | C::AddressNotAllowed
            | C::MinuteLimit
            | C::DayLimit
            | C::UsageLimit
            | C::AddressLimit
            | C::InvalidKey
            | C::MissingKey
            | C::Unspecified => None,
        }
    }

    /// Explains refusals by a state, by recorded refusals, or by both.
    fn explanation(
        &self,
        cause: C,
        key_id: Option<KeyId>,
        fact: Option<Fact<'_>>,
        group: Option<&Group<'_>>,
        now: UnixMillis,
    ) -> RefusalExplanation {
        let (account, newest) = (self.account.as_ref(), group.map(|group| group.newest));
        let since = fact.map(|fact| fact.since).or(newest.and_then(|newest| newest.since));
        let until = fact.map_or(newest.and_then(|newest| newest.until), |fact| fact.until);
        let limit = newest.and_then(|newest| newest.limit).unwrap_or_default();
        let runs = until.is_some_and(|until| until > now);
        // A new plan has another limit, which applies in the current window.
        let quota = account.map(|account| account.plan.quota());
        let is_limit = |quota: u64| i64::try_from(quota) == Ok(limit);
        // An operator lifted or replaced it: the store is authoritative.
        let is_cut_short = matches!(cause, C::LimiterBan | C::OperatorBan) && runs && fact.is_none();
        let in_force = match cause {
            C::MinuteLimit => runs && quota.is_some_and(|quota| is_limit(quota.per_minute)),
            C::DayLimit => runs && quota.is_some_and(|quota| is_limit(quota.per_day)),
            C::UsageLimit | C::AddressLimit => runs,
            C::LimiterBan | C::OperatorBan => runs && fact.is_some(),
            C::AccountSuspended => fact.is_some(),
            C::KeyExpired => since.is_none_or(|since| since <= now),
            C::KeyRevoked
            | C::InsufficientScope
            | C::AddressNotAllowed
            | C::InvalidKey
            | C::MissingKey
            | C::Unspecified => true,
        };
        let period = since.zip(until).map(|(since, until)| {
            let is_of_several = group.is_some_and(|group| group.first < since);
            let last = if is_of_several { ", most recently" } else { "" };
            let until = until.ceil_to_sec();
            if is_cut_short {
                return format!("{last} from {since}; the ban was to end at {until}, but ended earlier");
            }
            format!("{last} from {since} until {until}")
        });
        let refused = group.map_or(String::new(), |Group { newest, first, requests, .. }| match requests {
            1 => format!("; request {} was refused at {first}", newest.request_id),
            // Gateways report a sample, so there may have been more, before and after.
            _ => format!(
                "; at least {requests} requests were refused, those on record from {first} to {}",
                newest.at
            ),
        });
        let reason = fact.and_then(|fact| fact.reason);
        let values = [
            ("{account}", account.map_or("The account".into(), |it| format!("Account {}", it.name))),
            ("{key}", key_id.map_or("The key".into(), |id| format!("Key {id}"))),
            ("{limit}", limit.to_string()),
            ("{day}", Day::containing(since.unwrap_or(now)).to_string()),
            ("{since}", since.unwrap_or(now).to_string()),
            ("{at}", since.map_or(String::new(), |since| format!(" at {since}"))),
            ("{period}", period.unwrap_or_default()),
            // The last one: operators may write anything.
            ("{reason}", reason.map_or(String::new(), |reason| format!(" ({})", reason.as_str()))),
        ];
        let (why, remedy) = template(cause, in_force);
        let why = values.iter().fold(why.to_owned(), |text, (name, value)| text.replace(name, value));
        RefusalExplanation {
            cause: cause.into(),
            code: refusal_code(cause).to_owned(),
            account: account.map(|account| account.name.to_string()).unwrap_or_default(),
            key_id: key_id.map(|id| id.to_string()).unwrap_or_default(),
            limit,
            start_time: since.or(group.map(|group| group.first)).map(UnixMillis::to_timestamp),
            end_time: until.filter(|_| !is_cut_short).map(UnixMillis::to_timestamp),
            in_force,
            refused_requests: group.map_or(0, |group| group.requests),
            last_request_id: newest.map(|newest| newest.request_id.clone()).unwrap_or_default(),
            last_refusal_time: newest.map(|newest| newest.at.to_timestamp()),
            sentence: format!("{why}{refused}."),
            remedy: remedy.to_owned(),
        }
    }
}

/// Returns the template of the sentence and the remedy for a cause.
fn template(cause: C, is_in_force: bool) -> (&'static str, &'static str) {
    let name = cause.as_str_name().trim_start_matches("REFUSAL_CAUSE_");
    let row = |name: &str| {
        let rows = include_str!("refusals.md").lines().filter_map(|row| row.strip_prefix("| "));
        let mut cells = rows.map(|row| row.trim_end_matches(" |").split(" | "));
        cells.find_map(|mut cells| {
            Some((cells.next().filter(|cell| *cell == name)?, cells.next()?, cells.next()?))
        })
    };
    let over = if is_in_force { None } else { row(&format!("{name}, over")) };
    over.or_else(|| row(name)).map_or_else(Default::default, |(_, why, remedy)| (why, remedy))
}

/// Groups refusals that come newest first.
fn groups(refusals: &[Refusal]) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for refusal in refusals {
        let is_of_key = matches!(
            refusal.cause,
            C::LimiterBan
                | C::OperatorBan
                | C::KeyRevoked
                | C::KeyExpired
                | C::InsufficientScope
                | C::AddressNotAllowed
        );
        let key_id = refusal.key_id.filter(|_| is_of_key);
        let requests = refusal.repeats.saturating_add(1);
        match groups.iter_mut().find(|it| (it.newest.cause, it.key_id) == (refusal.cause, key_id)) {
            None => groups.push(Group { key_id, newest: refusal, first: refusal.at, requests }),
            Some(group) => {
                group.first = group.first.min(refusal.at);
                group.requests = group.requests.saturating_add(requests);
            }
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use petstore_core::accounts::refusal_cause;

    #[test]
    fn every_cause_has_a_sentence_and_a_remedy() {
        for cause in (1..=13).filter_map(refusal_cause) {
            for is_in_force in [true, false] {
                let (why, remedy) = template(cause, is_in_force);
                assert!(!why.is_empty() && remedy.ends_with('.'), "{cause:?}: {why}, {remedy}");
            }
        }
    }
}
