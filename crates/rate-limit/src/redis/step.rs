//! The script, the steps that it runs, and their replies: fixed fields, big-endian, as `redis.lua` packs
//! them.

use std::sync::LazyLock;

use petstore_clock::UnixMillis;
use redis::{Cmd, Script, Value};

use super::error::RedisCallError;
use crate::{
    Decision, LimitKey, Outcome, Quota,
    policy::{AbuseState, Record, TimeSpan, Window, Windows},
};

/// Text of the script.
pub(super) const SOURCE: &str = include_str!("redis.lua");
/// Digest by which Redis knows the script once it was sent.
pub(super) static DIGEST: LazyLock<String> = LazyLock::new(|| Script::new(SOURCE).get_hash().to_owned());
/// Quota of probes: more than all gateways make in a day.
const PROBES: Quota = Quota { per_minute: 1_000_000_000, per_day: 1_000_000_000 };

/// Returns a call of the script: `EVALSHA` with its digest, or `EVAL` with its text, which Redis remembers.
/// If Redis does not know the digest, the answer is NOSCRIPT and the call has no effect.
pub(super) fn call(verb: &str, script: &str, steps: &[Step], time: Option<u64>) -> Cmd {
    let mut command = redis::cmd(verb);
    command.arg(script).arg(steps.len() * 2);
    for step in steps {
        command.arg(&step.owner).arg(step.abuse.as_ref().unwrap_or(&step.owner));
    }
    match time {
        Some(time) => command.arg(time),
        None => command.arg(""),
    };
    for Step { verb, quota: Quota { per_minute, per_day }, settled_at, .. } in steps {
        command.arg(verb).arg(per_minute).arg(per_day).arg(settled_at.0);
    }
    command
}

/// One step of the script. It touches two keys at most, both in the slot of the account or address.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) owner: String,
    pub(super) abuse: Option<String>,
    verb: &'static str,
    pub(super) quota: Quota,
    settled_at: UnixMillis,
}

impl Step {
    /// Returns a step that decides on a request and counts it.
    pub(super) fn take(namespace: &str, limit_key: &LimitKey, quota: Quota, settled_at: UnixMillis) -> Self {
        let verb = if matches!(limit_key, LimitKey::Address(_)) { "pass" } else { "take" };
        let (owner, abuse) = names(namespace, limit_key);
        Self { owner, abuse, verb, quota, settled_at }
    }

    /// Returns a step that reads a record.
    pub(super) fn read(namespace: &str, limit_key: &LimitKey) -> Self {
        let (owner, abuse) = names(namespace, limit_key);
        Self { owner, abuse, verb: "read", quota: PROBES, settled_at: UnixMillis(0) }
    }

    /// Returns a step for a request that belongs to no account, which shows if requests would be decided. It
    /// is always counted, because a Redis that only reads is of no use.
    pub(super) fn probe(key_prefix: &str, tag: &str) -> Self {
        let owner = [key_prefix, "{", tag, "}"].concat();
        Self { owner, abuse: None, verb: "pass", quota: PROBES, settled_at: UnixMillis(0) }
    }
}

/// Returns the keys of Redis under which a caller is kept: that of its windows, and that of the key's
/// strikes. All begin with the prefix and the installation, so that several installations may share a Redis.
/// Redis Cluster places a key by the text between its braces, so that all keys of an account are on one node.
/// They are short, because they are most of a caller's memory.
fn names(namespace: &str, limit_key: &LimitKey) -> (String, Option<String>) {
    let owner = |caller: &str, suffix: &str| [namespace, ":{", caller, "}", suffix].concat();
    let mut number = itoa::Buffer::new();
    match limit_key {
        LimitKey::ApiKey { account_id, key_id } => {
            let owner = owner(number.format(*account_id), "");
            let strikes = [owner.as_str(), "/strikes/", key_id].concat();
            (owner, Some(strikes))
        }
        LimitKey::Account(account_id) => (owner(number.format(*account_id), ""), None),
        LimitKey::Usage(account_id) => (owner(number.format(*account_id), "/usage"), None),
        LimitKey::Address(address) => (owner(&address.to_string(), ""), None),
    }
}

/// Parses the replies to a call: Redis's time, then one reply for each step.
pub(super) fn parse(
    value: Value,
    steps: &[Step],
) -> Result<Vec<Result<Reply, RedisCallError>>, RedisCallError> {
    let Value::Array(answers) = value else { return Err(RedisCallError::Protocol) };
    let mut answers = answers.into_iter();
    let Some(Value::Int(now)) = answers.next() else { return Err(RedisCallError::Protocol) };
    let now = UnixMillis(u64::try_from(now).map_err(|_| RedisCallError::Protocol)?);
    if answers.len() != steps.len() {
        return Err(RedisCallError::Protocol);
    }
    Ok(answers.zip(steps).map(|(answer, step)| one(now, answer, step.quota)).collect())
}

/// Returns the status of the limits in each reply to a call, as Redis sends it, or `None` if it is refused.
#[cfg(feature = "fuzzing")]
pub fn fuzz_reply(reply: &[u8], steps: usize, quota: Quota) -> Option<Vec<Option<crate::LimitStatus>>> {
    let value = redis::parse_redis_value(reply).and_then(Value::extract_error).ok()?;
    let step = |_| Step::take("", &crate::LimitKey::Account(1), quota, UnixMillis(0));
    let status = |reply| match reply {
        Reply::Decision(decision) => decision.into(),
        Reply::Kept(record, now) => crate::policy::inspect(record, quota, UnixMillis(0), now),
    };
    let replies = parse(value, &(0..steps).map(step).collect::<Vec<_>>()).ok()?;
    Some(replies.into_iter().map(|reply| reply.ok().map(status)).collect())
}

fn one(now: UnixMillis, answer: Value, quota: Quota) -> Result<Reply, RedisCallError> {
    let Value::BulkString(answer) = answer else { return Err(RedisCallError::Protocol) };
    match answer.split_first() {
        Some((b'E', error)) => Err(RedisCallError::from_answer(&String::from_utf8_lossy(error))),
        Some((kind, fields)) => {
            read_fields(now, *kind, Fields(fields), quota).ok_or(RedisCallError::Protocol)
        }
        None => Err(RedisCallError::Protocol),
    }
}

fn read_fields(now: UnixMillis, kind: u8, mut fields: Fields<'_>, quota: Quota) -> Option<Reply> {
    let reply = if kind == b'R' {
        let windows = fields.windows()?;
        let abuse = if fields.0.is_empty() { AbuseState::default() } else { fields.abuse()? };
        Reply::Kept(Record { windows, abuse }, now)
    } else {
        let (outcome, is_strike) = (outcome(kind.to_ascii_uppercase())?, kind.is_ascii_lowercase());
        if outcome == Outcome::Admitted && is_strike {
            return None;
        }
        let (minute, day) = fields.windows()?.view(quota, now.0);
        let has_moment = is_strike && !fields.0.is_empty();
        let struck_out_at = if has_moment { Some(UnixMillis(fields.moment()?)) } else { None };
        let decision = Decision::new(outcome, now, minute, day);
        Reply::Decision(Decision { is_strike, struck_out_at, ..decision })
    };
    fields.0.is_empty().then_some(reply)
}

const fn outcome(letter: u8) -> Option<Outcome> {
    match letter {
        b'A' => Some(Outcome::Admitted),
        b'M' => Some(Outcome::RateLimited),
        b'D' => Some(Outcome::QuotaExceeded),
        _ => None,
    }
}

/// Reply to one step.
#[derive(Debug)]
pub(super) enum Reply {
    /// Decision on a request.
    Decision(Decision),
    /// The whole record, including parts that no longer matter, and Redis's time.
    Kept(Record, UnixMillis),
}

impl Reply {
    /// Returns the decision on a request.
    pub(super) fn decision(self) -> Result<Decision, RedisCallError> {
        match self {
            Self::Decision(decision) => Ok(decision),
            Self::Kept(..) => Err(RedisCallError::Protocol),
        }
    }

    /// Returns the record that is kept, and Redis's time.
    pub(super) fn kept(self) -> Result<(Record, UnixMillis), RedisCallError> {
        match self {
            Self::Kept(record, now) => Ok((record, now)),
            Self::Decision(_) => Err(RedisCallError::Protocol),
        }
    }
}

/// Rest of a record.
#[derive(Clone, Copy)]
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn windows(&mut self) -> Option<Windows> {
        let minute = Window { from: self.moment()?, used: self.count()? };
        let day = Window { from: self.moment()?, used: self.count()? };
        let _abuse_matters_until = self.moment()?; // for the script alone
        Some(Windows { minute, day })
    }

    fn abuse(&mut self) -> Option<AbuseState> {
        Some(AbuseState { refused: self.span()?, striking: self.span()?, strikes: self.count()? })
    }

    fn span(&mut self) -> Option<TimeSpan> {
        Some(TimeSpan { from: self.moment()?, until: self.moment()? })
    }

    fn moment(&mut self) -> Option<u64> {
        self.integer::<6>()
    }

    fn count(&mut self) -> Option<u64> {
        self.integer::<5>()
    }

    /// Returns an unsigned integer of `SIZE` bytes, at most 8.
    fn integer<const SIZE: usize>(&mut self) -> Option<u64> {
        let (bytes, rest) = self.0.split_first_chunk::<SIZE>()?;
        self.0 = rest;
        Some(bytes.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn callers_have_distinct_names_and_an_account_has_one_hash_tag() {
        let names = |limit_key: LimitKey| names("pet:live-7", &limit_key);
        let key = LimitKey::ApiKey { account_id: 42, key_id: "9".into() };
        assert_eq!(names(key), ("pet:live-7:{42}".into(), Some("pet:live-7:{42}/strikes/9".into())));
        assert_eq!(names(LimitKey::Account(42)), ("pet:live-7:{42}".into(), None));
        assert_eq!(names(LimitKey::Usage(42)), ("pet:live-7:{42}/usage".into(), None));
        let address = LimitKey::Address("2001:db8::1".parse::<IpAddr>().unwrap().into());
        assert_eq!(names(address), ("pet:live-7:{2001:db8::/64}".into(), None));
    }

    fn answers(of_steps: impl IntoIterator<Item = Vec<u8>>) -> Value {
        let of_steps = of_steps.into_iter().map(Value::BulkString);
        Value::Array([Value::Int(1_795_200_000_000)].into_iter().chain(of_steps).collect())
    }

    fn steps(count: usize) -> Vec<Step> {
        vec![Step::probe("pet:", "probe"); count]
    }

    #[test]
    fn the_failure_of_a_step_affects_no_other() {
        let error = b"EWRONGTYPE Operation against a key holding the wrong kind of value".to_vec();
        let admitted = [b"A".as_slice(), &[0; 28]].concat();
        let replies = parse(answers([error, admitted, Vec::new()]), &steps(3)).unwrap();
        assert!(matches!(
            replies[..],
            [Err(RedisCallError::WrongType), Ok(Reply::Decision(_)), Err(RedisCallError::Protocol)]
        ));
    }

    #[test]
    fn an_answer_with_another_number_of_steps_is_refused() {
        assert_eq!(parse(answers([]), &steps(1)).unwrap_err(), RedisCallError::Protocol);
        assert_eq!(parse(Value::Okay, &[]).unwrap_err(), RedisCallError::Protocol);
        assert_eq!(parse(Value::Array(vec![Value::Int(-1)]), &[]).unwrap_err(), RedisCallError::Protocol);
    }

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(any::<u8>(), 0..90)
    }

    proptest! {
        #[test]
        fn any_reply_is_parsed_or_refused(kind: u8, fields in bytes()) {
            let answer = [kind].into_iter().chain(fields.clone()).collect();
            let replies = parse(answers([answer]), &steps(1)).unwrap();
            let sizes: &[usize] = match kind {
                b'A' | b'M' | b'D' => &[28],
                b'm' | b'd' => &[28, 34],
                b'R' => &[28, 57],
                _ => &[],
            };
            prop_assert_eq!(replies[0].is_ok(), sizes.contains(&fields.len()));
        }
    }
}
