//! From what is known of an account and its keys now: what refuses their requests.

use petstore_clock::UnixMillis;
use petstore_proto::admin::v1::{self as pb, RefusalCause};

use super::{because, convert};
use crate::domain::{Account, ApiKeyRecord, Ban, BanOrigin, UsageDay};

pub(super) const SUSPENSION_REMEDY: &str = "Resume the account; its keys work again within 5 seconds.";
pub(super) const ENDED_KEY_REMEDY: &str =
    "Give its users another key of the account: this one stays refused.";
pub(super) const LIMITER_BAN_REMEDY: &str =
    "Have its users wait for Retry-After after a 429, and lift the ban if it is not to be waited out.";
pub(super) const OPERATOR_BAN_REMEDY: &str = "Lift the ban; the key works again within 5 seconds.";
pub(super) const MINUTE_LIMIT_REMEDY: &str = "Raise the account's plan, which acts at once, or have its \
                                              users spread their requests and wait for Retry-After after a \
                                              429.";
pub(super) const DAY_LIMIT_REMEDY: &str =
    "Raise the account's plan, which acts at once, or wait for the end of the day.";

pub(super) fn of_suspension(account: &Account) -> Option<pb::RefusalExplanation> {
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
        remedy: SUSPENSION_REMEDY.to_owned(),
        ..Default::default()
    })
}

/// A key that was revoked or has expired.
pub(super) fn of_end(
    key: &ApiKeyRecord,
    now: UnixMillis,
    recent: UnixMillis,
) -> Option<pb::RefusalExplanation> {
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
        remedy: ENDED_KEY_REMEDY.to_owned(),
        ..Default::default()
    })
}

pub(super) fn of_ban(key: &ApiKeyRecord, ban: &Ban) -> pb::RefusalExplanation {
    let (id, from, until) = (key.id, ban.from, ban.until);
    let (cause, sentence, remedy) = match &ban.origin {
        BanOrigin::Limiter => (
            RefusalCause::LimiterBan,
            format!("Key {id} is banned from {from} until {until}, because it kept sending after 429."),
            LIMITER_BAN_REMEDY,
        ),
        BanOrigin::Operator(reason) => (
            RefusalCause::OperatorBan,
            format!("An operator banned key {id} from {from} until {until}{}.", because(reason.as_ref())),
            OPERATOR_BAN_REMEDY,
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

/// The limits, by what was counted today. Which window refused is inferred, unless something else explains
/// the refusals.
pub(super) fn of_limits(
    account: &Account,
    today: UsageDay,
    is_explained: bool,
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
            remedy: DAY_LIMIT_REMEDY.to_owned(),
            ..told
        });
    }
    // What something else refused is counted too.
    (!is_explained).then(|| pb::RefusalExplanation {
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
        remedy: MINUTE_LIMIT_REMEDY.to_owned(),
        ..told
    })
}
