//! Replies of the script, and the records in Redis: fixed fields, big-endian, as `redis.lua` packs them.

use petstore_clock::UnixMillis;
use redis::Value;

use super::{error::RedisCallError, step::Step};
use crate::rate_limit::{
    Decision, Outcome, Quota,
    abuse::{AbuseState, TimeSpan},
    policy::Record,
    windows::{Window, Windows},
};

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
#[must_use]
pub fn fuzz_reply(
    reply: &[u8],
    steps: usize,
    quota: Quota,
) -> Option<Vec<Option<crate::rate_limit::LimitStatus>>> {
    let value = redis::parse_redis_value(reply).and_then(Value::extract_error).ok()?;
    let step = |_| Step::take("", &crate::rate_limit::LimitKey::Account(1), quota, UnixMillis(0));
    let status = |reply| match reply {
        Reply::Decision(decision) => {
            crate::rate_limit::LimitStatus { decision, refused_until: None, strikes: None }
        }
        Reply::Kept(record, now) => crate::rate_limit::policy::inspect(record, quota, UnixMillis(0), now),
    };
    let replies = parse(value, &(0..steps).map(step).collect::<Vec<_>>()).ok()?;
    Some(replies.into_iter().map(|reply| reply.ok().map(status)).collect())
}

fn one(now: UnixMillis, answer: Value, quota: Quota) -> Result<Reply, RedisCallError> {
    let Value::BulkString(answer) = answer else { return Err(RedisCallError::Protocol) };
    match answer.split_first() {
        Some((b'E', error)) => Err(step_error(error)),
        Some((kind, fields)) => {
            read_fields(now, *kind, Fields(fields), quota).ok_or(RedisCallError::Protocol)
        }
        None => Err(RedisCallError::Protocol),
    }
}

fn step_error(error: &[u8]) -> RedisCallError {
    let text = String::from_utf8_lossy(error);
    RedisCallError::from_code(text.split(' ').next().unwrap_or_default())
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
    use proptest::prelude::*;

    use super::*;

    fn answers(of_steps: impl IntoIterator<Item = Vec<u8>>) -> Value {
        let of_steps = of_steps.into_iter().map(Value::BulkString);
        Value::Array([Value::Int(1_795_200_000_000)].into_iter().chain(of_steps).collect())
    }

    fn steps(count: usize) -> Vec<Step> {
        vec![Step::probe("probe"); count]
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
