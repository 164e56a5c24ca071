//! From requests that gateways reported: what refused them, in a sentence.

use petstore_clock::UnixMillis;
use petstore_proto::admin::v1 as pb;

use super::{Known, because, convert, state};
use crate::domain::{Day, KeyId, Plan, Refusal, RefusalCause};

/// Refusals of one account for one cause, of one key if the cause is one of keys.
#[derive(Debug)]
pub(super) struct Group<'a> {
    pub(super) cause: RefusalCause,
    /// `None` if the cause is none of a single key.
    pub(super) key_id: Option<KeyId>,
    pub(super) newest: &'a Refusal,
    /// When the first of them was refused.
    first: UnixMillis,
    requests: i64,
    /// Whether they are of several windows, or several bans.
    has_several: bool,
}

/// The groups of refusals that come newest first: that of the newest one first.
pub(super) fn groups(refusals: &[Refusal]) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for refusal in refusals {
        let one = Group::of_one(refusal);
        match groups.iter_mut().find(|group| (group.cause, group.key_id) == (one.cause, one.key_id)) {
            None => groups.push(one),
            Some(group) => {
                group.first = group.first.min(one.first);
                group.requests = group.requests.saturating_add(one.requests);
                group.has_several |= group.newest.until != refusal.until;
            }
        }
    }
    groups
}

impl<'a> Group<'a> {
    /// One request, with those that it stands for.
    pub(super) fn of_one(refusal: &'a Refusal) -> Self {
        use RefusalCause as C;
        let is_of_key =
            matches!(refusal.cause, C::LimiterBan | C::OperatorBan | C::KeyRevoked | C::KeyExpired);
        Self {
            cause: refusal.cause,
            key_id: refusal.key_id.filter(|_| is_of_key),
            newest: refusal,
            first: refusal.at,
            requests: refusal.repeats.saturating_add(1),
            has_several: false,
        }
    }

    /// Only that request.
    pub(super) fn of_request(refusal: &'a Refusal) -> Self {
        Self { requests: 1, ..Self::of_one(refusal) }
    }

    /// Whether it is of requests with that key, which has ended.
    pub(super) fn is_end_of(&self, key_id: KeyId) -> bool {
        matches!(self.cause, RefusalCause::KeyRevoked | RefusalCause::KeyExpired)
            && self.key_id == Some(key_id)
    }

    /// Adds what the group counts to an explanation of the same.
    pub(super) fn count_in(&self, explanation: &mut pb::RefusalExplanation) {
        explanation.refused_requests = self.requests;
        explanation.last_request_id.clone_from(&self.newest.request_id);
        explanation.last_refusal_time = Some(convert::timestamp(self.newest.at));
    }

    /// The explanation of the group; `known` is of its account, if it has one.
    pub(super) fn explain(&self, known: Option<&Known>, now: UnixMillis) -> pb::RefusalExplanation {
        let Refusal { limit, since, until, .. } = *self.newest;
        let in_force = self.is_in_force(known, now);
        let mut explanation = pb::RefusalExplanation {
            cause: self.cause.number(),
            code: self.cause.code().to_owned(),
            key_id: self.key_id.map(|id| id.to_string()).unwrap_or_default(),
            limit: limit.unwrap_or_default(),
            start_time: Some(convert::timestamp(since.unwrap_or(self.first))),
            end_time: until.map(convert::timestamp),
            in_force,
            sentence: format!("{}, because {}.", self.what_happened(known), self.why(known)),
            remedy: self.remedy(in_force).to_owned(),
            ..Default::default()
        };
        self.count_in(&mut explanation);
        explanation
    }

    fn what_happened(&self, known: Option<&Known>) -> String {
        let Refusal { request_id, at, .. } = self.newest;
        if self.requests == 1 || known.is_none() {
            return format!("Request {request_id} was refused at {at}");
        }
        let whose = match (self.key_id, known) {
            (Some(key), _) => format!(" with key {key}"),
            (None, Some(known)) => format!(" of account {}", known.account.name),
            (None, None) => String::new(),
        };
        format!("{} requests{whose} were refused from {} to {at}", self.requests, self.first)
    }

    fn why(&self, known: Option<&Known>) -> String {
        let Refusal { since, until, .. } = *self.newest;
        let name = known.map_or_else(String::new, |known| format!(" {}", known.account.name));
        let key = self.key_id.map_or_else(String::new, |key| format!(" {key}"));
        let last = if self.has_several { "the last time " } else { "" };
        let time = match (since, until) {
            (Some(since), Some(until)) => format!("{last}from {} until {}", since, second_after(until)),
            _ => format!("{last}for a time that is not known"),
        };
        let limit = self.newest.limit.unwrap_or_default();
        match self.cause {
            RefusalCause::MinuteLimit => {
                let allowed = self.allowed(known);
                format!("account{name} had used up the {limit} requests a minute that {allowed}, {time}")
            }
            RefusalCause::DayLimit => {
                let (allowed, day) = (self.allowed(known), Day::containing(since.unwrap_or(self.newest.at)));
                format!(
                    "account{name} had used up the {limit} requests a day that {allowed}, in the UTC day \
                    {day}"
                )
            }
            RefusalCause::LimiterBan => {
                format!("key{key} was banned for sending on after 429, {time}")
            }
            RefusalCause::OperatorBan => format!("an operator had banned key{key}, {time}"),
            RefusalCause::AccountSuspended => {
                let suspension = known.and_then(|known| known.account.suspension.as_ref());
                let reason = because(suspension.and_then(|suspension| suspension.reason.as_ref()));
                format!("account{name} was suspended{reason}")
            }
            RefusalCause::KeyRevoked | RefusalCause::KeyExpired => {
                let record = known.zip(self.key_id).and_then(|(known, id)| known.key(id));
                let ended = record.and_then(|key| key.revoked_at.or(key.expires_at));
                let what = if self.cause == RefusalCause::KeyRevoked { "was revoked" } else { "expired" };
                let when = ended.map_or_else(String::new, |at| format!(" at {at}"));
                format!("key{key} {what}{when}")
            }
            RefusalCause::InvalidKey => "it carried a key that the service does not know".to_owned(),
            RefusalCause::MissingKey => "it carried no key".to_owned(),
            RefusalCause::AddressLimit => {
                format!(
                    "its address had used up the {limit} requests that it may make without a valid key, \
                    {time}"
                )
            }
            RefusalCause::UsageLimit => {
                format!("account{name} had used up the {limit} questions a minute about its usage, {time}")
            }
        }
    }

    /// Who allows the limit: a new plan may allow another one.
    fn allowed(&self, known: Option<&Known>) -> String {
        let plan = known.map(|known| known.account.plan);
        let quota = plan.map(Plan::quota).map(|quota| match self.cause {
            RefusalCause::DayLimit => quota.per_day,
            _ => quota.per_minute,
        });
        let limit = self.newest.limit.and_then(|limit| u64::try_from(limit).ok());
        match plan {
            Some(plan) if quota == limit => format!("its plan {} allows", plan.name()),
            Some(_) | None => "it was allowed then".to_owned(),
        }
    }

    fn is_in_force(&self, known: Option<&Known>, now: UnixMillis) -> bool {
        let runs = self.newest.until.is_some_and(|until| until > now);
        match self.cause {
            RefusalCause::MinuteLimit | RefusalCause::DayLimit => {
                runs && known.is_some() && self.allowed(known) != "it was allowed then"
            }
            RefusalCause::AddressLimit | RefusalCause::UsageLimit => runs,
            RefusalCause::LimiterBan | RefusalCause::OperatorBan => {
                let ban = known.zip(self.key_id).and_then(|(known, key)| known.ban(key));
                runs && ban.is_some_and(|ban| Some(ban.until) == self.newest.until)
            }
            RefusalCause::AccountSuspended => known.is_some_and(|known| known.account.suspension.is_some()),
            RefusalCause::KeyRevoked
            | RefusalCause::KeyExpired
            | RefusalCause::InvalidKey
            | RefusalCause::MissingKey => true,
        }
    }

    fn remedy(&self, in_force: bool) -> &'static str {
        match self.cause {
            RefusalCause::MinuteLimit => state::MINUTE_LIMIT_REMEDY,
            RefusalCause::DayLimit => state::DAY_LIMIT_REMEDY,
            RefusalCause::LimiterBan if in_force => state::LIMITER_BAN_REMEDY,
            RefusalCause::LimiterBan => {
                "The ban is over. Have its users wait for Retry-After after a 429, or the next one is longer."
            }
            RefusalCause::OperatorBan if in_force => state::OPERATOR_BAN_REMEDY,
            RefusalCause::OperatorBan => "The ban is over; nothing is to be done.",
            RefusalCause::AccountSuspended if in_force => state::SUSPENSION_REMEDY,
            RefusalCause::AccountSuspended => "The account is not suspended any more; nothing is to be done.",
            RefusalCause::KeyRevoked | RefusalCause::KeyExpired => state::ENDED_KEY_REMEDY,
            RefusalCause::InvalidKey => {
                "Have the caller compare the key with the one that was handed out, and its prefix with the \
                 environment, or create another one: no key is shown twice."
            }
            RefusalCause::MissingKey => "Have the caller send the header Authorization: Bearer API_KEY.",
            RefusalCause::AddressLimit => {
                "Have the caller send a valid key: requests with one have the limits of their account."
            }
            RefusalCause::UsageLimit => {
                "Have its users ask less often: every answer tells in its header fields what is left."
            }
        }
    }
}

/// To the second, rounded up: what ends then has ended.
fn second_after(moment: UnixMillis) -> UnixMillis {
    UnixMillis::from_secs(moment.as_secs_ceil())
}
