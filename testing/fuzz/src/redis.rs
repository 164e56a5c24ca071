//! Target of replies of Redis: bytes of its protocol (RESP).

use petstore_core::accounts::Quota;
use petstore_rate_limit::{Decision, LimitStatus, Outcome, fuzz_reply};

const QUOTA: Quota = Quota { per_minute: 60, per_day: 1_000 };

/// A reply has an answer for each step and no other, or is refused. The values that clients see are within
/// the limits of the answer. An answer ends with its last field.
pub(crate) fn redis_reply(input: &[u8]) {
    let is_read = |answer: &[u8]| {
        let head = format!("*2\r\n:1795200000000\r\n${}\r\n", answer.len());
        let replies = fuzz_reply(&[head.as_bytes(), answer, b"\r\n"].concat(), 1, QUOTA);
        replies.is_some_and(|replies| replies.iter().all(Option::is_some))
    };
    assert!(!is_read(input) || !is_read(&[input, b"\0"].concat()), "bytes after the last field are ignored");

    let read = (0..=3).filter_map(|steps| Some((steps, fuzz_reply(input, steps, QUOTA)?)));
    let read: Vec<_> = read.collect();
    assert!(read.len() <= 1, "one reply to several numbers of steps");
    for (steps, replies) in read {
        assert_eq!(replies.len(), steps);
        for LimitStatus { decision, refused_until, strikes } in replies.into_iter().flatten() {
            let Decision { outcome, now, minute, day, is_strike, struck_out_at, .. } = decision;
            assert_eq!((minute.limit, day.limit), (QUOTA.per_minute, QUOTA.per_day));
            assert!(minute.remaining <= minute.limit && day.remaining <= day.limit);
            assert!([minute, day].contains(&decision.shown()));
            let is_refused = outcome != Outcome::Admitted;
            assert_eq!(decision.retry_after_secs().is_some_and(|secs| secs > 0), is_refused);
            assert_eq!(decision.refusal_message("requests").is_some_and(|text| !text.is_empty()), is_refused);
            assert!(!is_strike || is_refused, "an admitted strike");
            assert!(is_strike || struck_out_at.is_none(), "struck out without a strike");
            assert!(refused_until.is_none_or(|until| until > now));
            assert!(strikes.is_none_or(|strikes| strikes.count > 0 && strikes.resets_at > now));
        }
    }
}
