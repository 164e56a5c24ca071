//! Why requests are refused, or were: from what is known of the account, its keys, their bans and its usage.

use std::{cmp::Reverse, time::Duration};

use petstore_clock::UnixMillis;
use petstore_proto::admin::v1::{self as pb, RefusalCause, explain_refusal_request::Subject};

use super::{caller::Caller, convert};
use crate::{
    Core,
    domain::{Account, ApiKeyRecord, Ban, BanOrigin, Day, KeyId, PetStoreError, StatedReason, Violation},
};

/// How far back keys of an account are told that are no longer valid.
const MEMORY: Duration = Duration::from_hours(24);
/// How many explanations are told.
const MAX_EXPLANATIONS: usize = 20;

pub(super) async fn explain(
    core: &Core,
    caller: Caller,
    request: pb::ExplainRefusalRequest,
) -> Result<pb::ExplainRefusalResponse, PetStoreError> {
    let now = caller.now;
    let (account, keys, recent) = match request.subject {
        None => {
            return Err(convert::refused(Violation::new("account", "is required, or key_id or request_id")));
        }
        // Single requests are not kept.
        Some(Subject::RequestId(_)) => return Ok(pb::ExplainRefusalResponse::default()),
        Some(Subject::Account(name)) => {
            let name = convert::account_name(&name)?;
            let account = core.store.accounts().find(&name).await?;
            (account, core.store.keys().list(Some(&name)).await?, now.minus(MEMORY))
        }
        Some(Subject::KeyId(id)) => {
            let key = core.store.keys().find(convert::key_id(&id)?).await?;
            (core.store.accounts().find(&key.account).await?, vec![key], UnixMillis(0))
        }
    };
    let ids: Vec<KeyId> = keys.iter().map(|key| key.id).collect();
    let bans = core.store.bans().in_force(&ids, now).await?;
    let today = core.store.usage().by_day(Some(account.id), Day::containing(now)).await?.pop();

    let mut explanations: Vec<_> = of_suspension(&account).into_iter().collect();
    for key in &keys {
        explanations.extend(of_end(key, now, recent));
        let ban = bans.iter().find(|(key_id, _)| *key_id == key.id);
        explanations.extend(ban.map(|(_, ban)| of_ban(key, ban)));
    }
    if let Some(today) = today {
        explanations.extend(of_limits(&account, today, !bans.is_empty()));
    }
    let begin = |it: &pb::RefusalExplanation| it.start_time.map_or(0, |time| time.seconds);
    explanations.sort_by_key(|it| (!it.in_force, Reverse(begin(it))));
    explanations.truncate(MAX_EXPLANATIONS);
    for explanation in &mut explanations {
        explanation.account = account.name.to_string();
    }
    Ok(pb::ExplainRefusalResponse { explanations })
}

/// The reason as the end of a sentence.
fn because(reason: Option<&StatedReason>) -> String {
    reason.map(|reason| format!(": {}", reason.as_str())).unwrap_or_default()
}

fn of_suspension(account: &Account) -> Option<pb::RefusalExplanation> {
    let suspension = account.suspension.as_ref()?;
    let (name, since) = (&account.name, suspension.since);
    Some(pb::RefusalExplanation {
        cause: RefusalCause::AccountSuspended.into(),
        code: "ACCOUNT_SUSPENDED".to_owned(),
        start_time: Some(convert::timestamp(since)),
        in_force: true,
        sentence: format!(
            "Account {name} is suspended since {since}{}.",
            because(suspension.reason.as_ref())
        ),
        remedy: "Resume the account; its keys work again within 5 seconds.".to_owned(),
        ..Default::default()
    })
}

/// A key that was revoked or has expired.
fn of_end(key: &ApiKeyRecord, now: UnixMillis, recent: UnixMillis) -> Option<pb::RefusalExplanation> {
    let (cause, code, at, what) = match (key.revoked_at, key.expires_at) {
        (Some(at), _) => (RefusalCause::KeyRevoked, "API_KEY_REVOKED", at, "was revoked at"),
        (None, Some(at)) if at <= now => (RefusalCause::KeyExpired, "API_KEY_EXPIRED", at, "expired at"),
        (None, _) => return None,
    };
    (at >= recent).then(|| pb::RefusalExplanation {
        cause: cause.into(),
        code: code.to_owned(),
        key_id: key.id.to_string(),
        start_time: Some(convert::timestamp(at)),
        in_force: true,
        sentence: format!("Key {} {what} {at}.", key.id),
        remedy: "Give its users another key of the account: this one stays refused.".to_owned(),
        ..Default::default()
    })
}

fn of_ban(key: &ApiKeyRecord, ban: &Ban) -> pb::RefusalExplanation {
    let (id, from, until) = (key.id, ban.from, ban.until);
    let (cause, sentence, remedy) = match &ban.origin {
        BanOrigin::Limiter => (
            RefusalCause::LimiterBan,
            format!("Key {id} is banned from {from} until {until}, because it kept sending after 429."),
            "Have its users wait for Retry-After after a 429, and lift the ban if it is not to be waited \
             out.",
        ),
        BanOrigin::Operator(reason) => (
            RefusalCause::OperatorBan,
            format!("An operator banned key {id} from {from} until {until}{}.", because(reason.as_ref())),
            "Lift the ban; the key works again within 5 seconds.",
        ),
    };
    pb::RefusalExplanation {
        cause: cause.into(),
        code: "API_KEY_BANNED".to_owned(),
        key_id: id.to_string(),
        start_time: Some(convert::timestamp(from)),
        end_time: Some(convert::timestamp(until)),
        in_force: true,
        sentence,
        remedy: remedy.to_owned(),
        ..Default::default()
    }
}

/// The limits, by what was counted today: gateways alone know the windows that run now.
fn of_limits(
    account: &Account,
    today: crate::domain::UsageDay,
    is_banned: bool,
) -> Option<pb::RefusalExplanation> {
    let (name, limits, counted) = (&account.name, account.plan.quota(), today.tally);
    if counted.refused == 0 {
        return None;
    }
    let (begin, end) = (today.day.start(), today.day.minus(-1).start());
    let used = counted.succeeded.saturating_add(counted.client_errors).saturating_add(counted.server_errors);
    let used = u64::try_from(used).unwrap_or_default();
    let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let told = pb::RefusalExplanation {
        start_time: Some(convert::timestamp(begin)),
        refused_requests: counted.refused,
        ..Default::default()
    };
    if used >= limits.per_day {
        return Some(pb::RefusalExplanation {
            cause: RefusalCause::DayLimit.into(),
            code: "QUOTA_EXCEEDED".to_owned(),
            limit: number(limits.per_day),
            end_time: Some(convert::timestamp(end)),
            in_force: true,
            sentence: format!(
                "Account {name} has used all {} requests that its plan {} allows in the UTC day {}; more are \
                 refused until {end}.",
                limits.per_day,
                account.plan.name(),
                today.day,
            ),
            remedy: "Raise the account's plan, which acts at once, or wait for the end of the day."
                .to_owned(),
            ..told
        });
    }
    // What a ban refuses is counted too.
    (!is_banned).then(|| pb::RefusalExplanation {
        cause: RefusalCause::MinuteLimit.into(),
        code: "RATE_LIMITED".to_owned(),
        limit: number(limits.per_minute),
        sentence: format!(
            "{} requests of account {name} were refused in the UTC day {}, because they came faster than \
             the {} a minute that its plan {} allows.",
            counted.refused,
            today.day,
            limits.per_minute,
            account.plan.name(),
        ),
        remedy: "Raise the account's plan, which acts at once, or have its users spread their requests and \
                 wait for Retry-After after a 429."
            .to_owned(),
        ..told
    })
}
