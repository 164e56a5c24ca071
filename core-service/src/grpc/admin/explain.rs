//! Explanations of refusals, from the refusals that gateways recorded and the state of the account and its
//! keys.

use std::cmp::Reverse;

use petstore_clock::UnixMillis;
use petstore_proto::admin::v1 as pb;

use super::{caller::Caller, convert};
use crate::{
    Core,
    domain::{
        Account, ApiKeyRecord, Ban, BanOrigin, Day, KeyId, PetStoreError, Refusal, RefusalCause as C,
        StatedReason, Violation,
    },
    store::{REFUSALS_KEPT, timestamp},
};

/// Maximum number of explanations in an answer.
const MAX_EXPLANATIONS: usize = 20;

pub(super) async fn explain(
    core: &Core,
    caller: Caller,
    request: pb::ExplainRefusalRequest,
) -> Result<pb::ExplainRefusalResponse, PetStoreError> {
    let now = caller.now;
    let recent = now.minus(REFUSALS_KEPT);
    let pb::ExplainRefusalRequest { account, key_id, request_id } = request;
    let wrong = |field, rule| Err(convert::refused(Violation::new(field, rule)));
    let account = convert::account_filter(&account)?;
    if !request_id.is_empty() {
        Refusal::check_request_id(&request_id).map_err(convert::refused)?;
    }
    let mut subjects: Vec<(State, Vec<Refusal>)> = Vec::new();
    let (name, in_log) = match (account, key_id.as_str(), request_id.as_str()) {
        (None, "", "") => return wrong("account", "is required, or key_id or request_id"),
        (None, "", id) => {
            for refusal in core.store.refusals_of_request(id).await? {
                subjects.push((State::of_refusal(core, &refusal, recent).await?, vec![refusal]));
            }
            (format!("request {id}"), format!("request_id={id}"))
        }
        (Some(account), "", id) => {
            let account = core.store.find_account(&account).await?;
            let keys = core.store.keys_of(&account).await?;
            let mut refusals = core.store.refusals_of_account(account.id, recent).await?;
            refusals.retain(|refusal| id.is_empty() || refusal.request_id == id);
            let (name, in_log) = match id {
                "" => (format!("account {}", account.name), format!("account_id={}", account.id.0)),
                id => (format!("request {id} of account {}", account.name), format!("request_id={id}")),
            };
            subjects.push((State::of(core, account, keys, recent).await?, refusals));
            (name, in_log)
        }
        (None, id, "") => {
            let key = core.store.find_key(convert::key_id(id)?).await?;
            let account = core.store.find_account(&key.account).await?;
            let mut refusals = core.store.refusals_of_account(account.id, recent).await?;
            refusals.retain(|refusal| refusal.key_id == Some(key.id));
            // For a key that the request names, its end is explained regardless of its age.
            subjects.push((State::of(core, account, vec![key], UnixMillis(0)).await?, refusals));
            (format!("key {id}"), format!("key_id={id}"))
        }
        (_, _, _) => return wrong("key_id", "cannot be combined with account or request_id"),
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
    let begin = |it: &pb::RefusalExplanation| it.start_time.map_or(0, |time| time.seconds);
    explanations.sort_by_key(|it| (!it.in_force, Reverse(begin(it))));
    explanations.truncate(MAX_EXPLANATIONS);
    let note = if is_kept || (request_id.is_empty() && !explanations.is_empty()) {
        String::new()
    } else {
        let account = subjects.first().and_then(|(state, _)| state.account.as_ref());
        note(&name, &in_log, account, &explanations)
    };
    Ok(pb::ExplainRefusalResponse { explanations, note })
}

/// Returns the note for requests of which no refusal is stored.
fn note(
    requests: &str,
    in_log: &str,
    account: Option<&Account>,
    explanations: &[pb::RefusalExplanation],
) -> String {
    let state = match account {
        None => "Name the account as well to see its state.".to_owned(),
        Some(account) if explanations.iter().any(|it| it.in_force) => {
            format!("What refuses requests of account {} now is explained beside this note.", account.name)
        }
        Some(account) => {
            format!(
                "Account {} is not suspended, and the state of its keys refuses nothing now.",
                account.name
            )
        }
    };
    format!(
        "No refusal of {requests} is kept, but there may have been one: refusals are sampled, and reported \
         every 5 seconds. A sample is kept for 24 hours of each account's refusals for each limit, ban or \
         suspension, and for keys that are missing, unknown, revoked or expired; answers 400, 404, 405, 413, \
         415 and 5xx are only in the log. {state} To find the request, search the log of the gateways \
         for {in_log}."
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
    reason: Option<&'a StatedReason>,
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
        core: &Core,
        account: Account,
        keys: Vec<ApiKeyRecord>,
        recent: UnixMillis,
    ) -> Result<Self, PetStoreError> {
        let ids: Vec<KeyId> = keys.iter().map(|key| key.id).collect();
        let bans = core.store.bans_in_force(&ids, recent).await?;
        Ok(Self { account: Some(account), keys, bans, recent })
    }

    async fn of_refusal(core: &Core, refusal: &Refusal, recent: UnixMillis) -> Result<Self, PetStoreError> {
        let Some(account) = refusal.account else { return Ok(Self::default()) };
        let account = match core.store.find_account_by_id(account).await {
            Ok(account) => account,
            Err(PetStoreError::AccountIdNotFound(_)) => return Ok(Self::default()),
            Err(error) => return Err(error),
        };
        let key = match refusal.key_id {
            Some(id) => core.store.find_key(id).await.ok(),
            None => None,
        };
        Self::of(core, account, key.into_iter().collect(), recent).await
    }

    /// Adds the explanations of refusals, which come newest first.
    fn explain_refusals(
        &self,
        refusals: &[Refusal],
        now: UnixMillis,
        explanations: &mut Vec<pb::RefusalExplanation>,
    ) {
        for group in groups(refusals) {
            let cause = group.newest.cause;
            let fact = self.fact(cause, group.key_id);
            // A ban in force may be another one than the ban that refused.
            let fact = fact.filter(|fact| fact.until.is_none() || fact.until == group.newest.until);
            explanations.push(self.explanation(cause, group.key_id, fact, Some(&group), now));
        }
    }

    /// Adds explanations of states that refuse requests now, if they are not explained yet.
    fn explain_now(&self, now: UnixMillis, explanations: &mut Vec<pb::RefusalExplanation>) {
        let of_keys = self.keys.iter().flat_map(|key| {
            let end = if key.revoked_at.is_some() { C::KeyRevoked } else { C::KeyExpired };
            [(end, Some(key.id)), (C::LimiterBan, Some(key.id)), (C::OperatorBan, Some(key.id))]
        });
        for (cause, key_id) in [(C::AccountSuspended, None)].into_iter().chain(of_keys) {
            let Some(fact) = self.fact(cause, key_id) else { continue };
            let is_old = matches!(cause, C::KeyRevoked | C::KeyExpired) && fact.since < self.recent;
            let current = self.explanation(cause, key_id, Some(fact), None, now);
            let is_there = explanations.iter().any(|it| {
                (it.cause, &it.key_id, it.start_time) == (current.cause, &current.key_id, current.start_time)
            });
            if current.in_force && !is_old && !is_there {
                explanations.push(current);
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
            C::MinuteLimit
            | C::DayLimit
            | C::UsageLimit
            | C::AddressLimit
            | C::InvalidKey
            | C::MissingKey => None,
        }
    }

    fn explanation<'a>(
        &'a self,
        cause: C,
        key_id: Option<KeyId>,
        fact: Option<Fact<'a>>,
        group: Option<&'a Group<'a>>,
        now: UnixMillis,
    ) -> pb::RefusalExplanation {
        Explanation { cause, account: self.account.as_ref(), key_id, fact, group, now }.into()
    }
}

/// Explanation of refusals by a state, by recorded refusals, or by both.
#[derive(Debug)]
struct Explanation<'a> {
    cause: C,
    account: Option<&'a Account>,
    key_id: Option<KeyId>,
    fact: Option<Fact<'a>>,
    group: Option<&'a Group<'a>>,
    now: UnixMillis,
}

impl From<Explanation<'_>> for pb::RefusalExplanation {
    fn from(it: Explanation<'_>) -> Self {
        let newest = it.group.map(|group| group.newest);
        let refused =
            it.group.map_or(String::new(), |Group { newest, first, requests, .. }| match requests {
                1 => format!("; request {} was refused at {first}", newest.request_id),
                _ => format!("; {requests} requests were refused from {first} to {}", newest.at),
            });
        Self {
            cause: it.cause.number(),
            code: it.cause.code().to_owned(),
            account: it.account.map(|account| account.name.to_string()).unwrap_or_default(),
            key_id: it.key_id.map(|id| id.to_string()).unwrap_or_default(),
            limit: it.limit(),
            start_time: it.since().or(it.group.map(|group| group.first)).map(timestamp),
            end_time: it.until().map(timestamp),
            in_force: it.is_in_force(),
            refused_requests: it.group.map_or(0, |group| group.requests),
            last_request_id: newest.map(|newest| newest.request_id.clone()).unwrap_or_default(),
            last_refusal_time: newest.map(|newest| timestamp(newest.at)),
            sentence: format!("{}{refused}.", it.why()),
            remedy: it.remedy().to_owned(),
        }
    }
}

impl Explanation<'_> {
    fn since(&self) -> Option<UnixMillis> {
        self.fact.map(|fact| fact.since).or(self.group.and_then(|group| group.newest.since))
    }

    fn until(&self) -> Option<UnixMillis> {
        self.fact.map_or(self.group.and_then(|group| group.newest.until), |fact| fact.until)
    }

    /// Returns the limit in requests per window; 0 if the cause is not a limit.
    fn limit(&self) -> i64 {
        self.group.and_then(|group| group.newest.limit).unwrap_or_default()
    }

    fn is_in_force(&self) -> bool {
        let runs = self.until().is_some_and(|until| until > self.now);
        // A new plan has another limit, which applies in the current window.
        let quota = self.account.map(|account| account.plan.quota());
        let is_limit = |quota: u64| i64::try_from(quota) == Ok(self.limit());
        match self.cause {
            C::MinuteLimit => runs && quota.is_some_and(|quota| is_limit(quota.per_minute)),
            C::DayLimit => runs && quota.is_some_and(|quota| is_limit(quota.per_day)),
            C::UsageLimit | C::AddressLimit => runs,
            C::LimiterBan | C::OperatorBan => runs && self.fact.is_some(),
            C::AccountSuspended => self.fact.is_some(),
            C::KeyExpired => self.since().is_none_or(|since| since <= self.now),
            C::KeyRevoked | C::InvalidKey | C::MissingKey => true,
        }
    }

    fn why(&self) -> String {
        let account = self.account.map_or("The account".to_owned(), |it| format!("Account {}", it.name));
        let key = self.key_id.map_or("The key".to_owned(), |id| format!("Key {id}"));
        let limit = self.limit();
        let since = self.since();
        let at = since.map_or(String::new(), |since| format!(" at {since}"));
        let period = match (since, self.until()) {
            (Some(since), Some(until)) => {
                let is_of_several = self.group.is_some_and(|group| group.first < since);
                let last = if is_of_several { ", most recently" } else { "" };
                format!("{last} from {since} until {}", UnixMillis::from_secs(until.as_secs_ceil()))
            }
            _ => String::new(),
        };
        let reason = self.fact.and_then(|fact| fact.reason);
        let reason = reason.map_or(String::new(), |reason| format!(" ({})", reason.as_str()));
        match self.cause {
            C::MinuteLimit => format!("{account} used up its {limit} requests a minute{period}"),
            C::DayLimit => {
                let day = Day::containing(since.unwrap_or(self.now));
                format!("{account} used up its {limit} requests of the UTC day {day}")
            }
            C::UsageLimit => {
                format!("{account} used up its {limit} questions a minute about its usage{period}")
            }
            C::AddressLimit => {
                format!("The client's address used up its {limit} requests without a valid key{period}")
            }
            C::LimiterBan => format!("{key} was banned for sending on after 429{period}"),
            C::OperatorBan => format!("{key} was banned by an operator{period}{reason}"),
            C::AccountSuspended if self.fact.is_none() => {
                format!("{account} was suspended, and is not any more")
            }
            C::AccountSuspended => {
                format!("{account} is suspended since {}{reason}", since.unwrap_or(self.now))
            }
            C::KeyRevoked => format!("{key} was revoked{at}"),
            C::KeyExpired => format!("{key} expired{at}"),
            C::InvalidKey => "The request carried a key that the service does not know".to_owned(),
            C::MissingKey => "The request carried no key".to_owned(),
        }
    }

    fn remedy(&self) -> &'static str {
        match (self.cause, self.is_in_force()) {
            (C::MinuteLimit, _) => {
                "Raise the account's plan, which acts at once, or have its users spread their requests and \
                 wait for Retry-After after a 429."
            }
            (C::DayLimit, _) => {
                "Raise the account's plan, which acts at once, or wait for the end of the day."
            }
            (C::UsageLimit, _) => {
                "Have its users ask less often: every answer has in its header fields what is left."
            }
            (C::AddressLimit, _) => {
                "Have the caller send a valid key: requests with one have the limits of their account."
            }
            (C::LimiterBan, true) => {
                "Have its users wait for Retry-After after a 429. Lift the ban if they cannot wait."
            }
            (C::LimiterBan, false) => {
                "The ban is over. Have its users wait for Retry-After after a 429, or the next one is longer."
            }
            (C::OperatorBan, true) => "Lift the ban; the key works again within 5 seconds.",
            (C::OperatorBan, false) => "The ban is over; nothing is to be done.",
            (C::AccountSuspended, true) => "Resume the account; its keys work again within 5 seconds.",
            (C::AccountSuspended, false) => "The suspension is over; nothing is to be done.",
            (C::KeyRevoked | C::KeyExpired, _) => {
                "Give its users another key of the account: this one stays refused."
            }
            (C::InvalidKey, _) => {
                "Have the caller compare the key with the one that was handed out, and its prefix with the \
                 environment, or create another one: no key is shown twice."
            }
            (C::MissingKey, _) => "Have the caller send the header Authorization: Bearer API_KEY.",
        }
    }
}

/// Groups refusals that come newest first.
fn groups(refusals: &[Refusal]) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for refusal in refusals {
        let is_of_key =
            matches!(refusal.cause, C::LimiterBan | C::OperatorBan | C::KeyRevoked | C::KeyExpired);
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
