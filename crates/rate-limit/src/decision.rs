//! Answer of a limiter, and its presentation to the client.

use bytes::BufMut;
use petstore_caller::plans::{BanCause, BanPeriod};
use petstore_clock::UnixMillis;

/// Length of the minute window, in milliseconds.
pub const MINUTE: u64 = 60_000;

/// Length of the day window, in milliseconds. Unix days have no leap seconds.
pub const DAY: u64 = 86_400_000;

/// One window as the client may see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowView {
    /// Requests allowed in the window.
    pub limit: u64,
    /// Requests left in it; never more than `limit`.
    pub remaining: u64,
    /// Time at which it ends.
    pub resets_at: UnixMillis,
}

/// Verdict of the windows on a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The request may proceed, and was counted in both windows.
    Admitted,
    /// The minute's requests are used up.
    RateLimited,
    /// The day's requests are used up.
    QuotaExceeded,
}

impl Outcome {
    /// Returns the outcome of both windows. If both refuse, it is that of the window that resets later, or of
    /// the day if both reset at the same time.
    pub(super) fn from_windows(minute: WindowView, day: WindowView) -> Self {
        match (minute.remaining, day.remaining) {
            (0, 0) if minute.resets_at > day.resets_at => Self::RateLimited,
            (_, 0) => Self::QuotaExceeded,
            (0, _) => Self::RateLimited,
            (_, _) => Self::Admitted,
        }
    }
}

/// Gateways whose requests a decision's counters hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All gateways.
    Shared,
    /// This gateway alone, which limits by its own share while the shared counters are unreachable.
    Node,
}

/// Answer of the limiter to one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Verdict of the windows. In a peek, the verdict that a request would have got.
    pub outcome: Outcome,
    /// `true` if the request ignored a 429: it came more than a second after the first one, before its
    /// `Retry-After` had passed.
    pub is_strike: bool,
    /// Time at which the key's strikes were too many and its ban begins. Only set for a strike.
    pub struck_out_at: Option<UnixMillis>,
    /// Time of the decision, by the limiter's clock.
    pub now: UnixMillis,
    /// Minute window after this request.
    pub minute: WindowView,
    /// UTC day after this request.
    pub day: WindowView,
    /// Ban that refuses the request, with any outcome. A limiter sets none, because bans are a state of keys.
    pub ban: Option<BanPeriod>,
    /// Gateways whose requests were counted.
    pub scope: Scope,
}

impl Decision {
    /// Returns the decision on a request that is no strike and of a key that is not banned, by the counters
    /// of all gateways.
    pub const fn new(outcome: Outcome, now: UnixMillis, minute: WindowView, day: WindowView) -> Self {
        let (is_strike, struck_out_at, ban, scope) = (false, None, None, Scope::Shared);
        Self { outcome, is_strike, struck_out_at, now, minute, day, ban, scope }
    }

    /// Returns the one window that the three `X-RateLimit-` fields describe. On refusal it is the
    /// refusing window. In a ban it has the minute's limit, nothing remaining, and the
    /// ban's end. Otherwise it is the window with the fewest requests remaining, or the day if that is a tie.
    pub fn shown(&self) -> WindowView {
        if self.ban.is_some() {
            return self.minute_or_ban();
        }
        match self.outcome {
            Outcome::RateLimited => self.minute,
            Outcome::Admitted if self.minute.remaining < self.day.remaining => self.minute,
            Outcome::QuotaExceeded | Outcome::Admitted => self.day,
        }
    }

    /// Returns `Retry-After` in whole seconds, at least 1, rounded up (RFC 9110 §10.2.3). The ban and every
    /// exhausted window end within that time. `None` if the request was admitted.
    pub fn retry_after_secs(&self) -> Option<u64> {
        if self.outcome == Outcome::Admitted && self.ban.is_none() {
            return None;
        }
        let exhausted = [self.minute, self.day].into_iter().filter(|window| window.remaining == 0);
        let banned_until = self.ban.map(|ban| ban.until);
        let until = exhausted.map(|window| window.resets_at).chain(banned_until).max().unwrap_or(self.now);
        Some(secs_between(self.now, until).max(1))
    }

    /// Appends the value of `RateLimit-Policy` (draft-ietf-httpapi-ratelimit-headers), always with both
    /// windows.
    pub fn write_rate_limit_policy(&self, text: &mut impl BufMut) {
        let mut window = |name, limit, length| {
            text.put_slice(name);
            put_number(text, limit);
            text.put_slice(b";w=");
            put_number(text, length / 1_000);
        };
        window(b"\"minute\";q=".as_slice(), self.minute.limit, MINUTE);
        window(b", \"day\";q=".as_slice(), self.day.limit, DAY);
    }

    /// Appends the value of `RateLimit` (draft-ietf-httpapi-ratelimit-headers), always with both windows. In
    /// a ban the minute is shown as [`Self::shown`] shows it.
    pub fn write_rate_limit(&self, text: &mut impl BufMut) {
        let mut window = |name, view: WindowView| {
            text.put_slice(name);
            put_number(text, view.remaining);
            text.put_slice(b";t=");
            put_number(text, secs_between(self.now, view.resets_at));
        };
        window(b"\"minute\";r=".as_slice(), self.minute_or_ban());
        window(b", \"day\";r=".as_slice(), self.day);
    }

    /// Returns the reason why the windows refused the request, for people: limit, what is `counted`, such as
    /// `requests`, window, and reset in UTC. `None` if they admitted it.
    pub fn refusal_message(&self, counted: &str) -> Option<String> {
        let (window, name) = match self.outcome {
            Outcome::Admitted => return None,
            Outcome::RateLimited => (self.minute, "minute"),
            Outcome::QuotaExceeded => (self.day, "UTC day"),
        };
        let (limit, resets_at) = (window.limit, window.resets_at.ceil_to_sec());
        Some(format!("the limit of {limit} {counted} per {name} is used up; it resets at {resets_at}"))
    }

    /// Returns the reason why a banned key is refused, for people.
    pub fn ban_message(&self, cause: &BanCause) -> String {
        let resets_at = self.minute_or_ban().resets_at.ceil_to_sec();
        match cause {
            BanCause::IgnoredRefusals => {
                format!("the API key is banned until {resets_at}, because it kept sending after 429")
            }
            BanCause::Operator(None) => format!("the API key was banned by the operator until {resets_at}"),
            BanCause::Operator(Some(reason)) => {
                format!("the API key was banned by the operator until {resets_at}: {reason}")
            }
        }
    }

    fn minute_or_ban(&self) -> WindowView {
        match self.ban {
            Some(ban) => WindowView { limit: self.minute.limit, remaining: 0, resets_at: ban.until },
            None => self.minute,
        }
    }
}

/// State of a caller's limits: its windows and, for an API key, its abuse state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitStatus {
    /// Decision on a request now, with both windows. Nothing was counted.
    pub decision: Decision,
    /// End of the refused period. Requests before it, and past its first second, are strikes.
    pub refused_until: Option<UnixMillis>,
    /// Strikes in the running ten minutes; `None` if there are none.
    pub strikes: Option<Strikes>,
}

impl From<Decision> for LimitStatus {
    fn from(decision: Decision) -> Self {
        Self { decision, refused_until: None, strikes: None }
    }
}

/// Requests of a key that ignored 429.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strikes {
    /// Number of them; at least 1.
    pub count: u64,
    /// Time at which they expire.
    pub resets_at: UnixMillis,
}

/// Appends the number in decimal. Every answer shows nine numbers, and `format!` would take more instructions
/// for each.
pub fn put_number(text: &mut impl BufMut, number: u64) {
    text.put_slice(itoa::Buffer::new().format(number).as_bytes());
}

fn secs_between(now: UnixMillis, then: UnixMillis) -> u64 {
    then.0.saturating_sub(now.0).div_ceil(1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a decision at 2026-11-20T18:46:20.250Z, on the Free plan.
    fn decision(outcome: Outcome) -> Decision {
        let now = UnixMillis(1_795_200_380_250);
        Decision {
            outcome,
            is_strike: false,
            struck_out_at: None,
            now,
            minute: WindowView { limit: 60, remaining: 59, resets_at: UnixMillis(now.0 + 42_000) },
            day: WindowView { limit: 1_000, remaining: 999, resets_at: UnixMillis(1_795_219_200_000) },
            ban: None,
            scope: Scope::Shared,
        }
    }

    /// Returns the values of `RateLimit-Policy` and `RateLimit`.
    fn ietf_fields(decision: &Decision) -> [String; 2] {
        let (mut policy, mut state) = (Vec::new(), Vec::new());
        decision.write_rate_limit_policy(&mut policy);
        decision.write_rate_limit(&mut state);
        [policy, state].map(|text| String::from_utf8(text).unwrap())
    }

    #[test]
    fn the_ietf_fields_show_both_windows() {
        let [policy, state] = ietf_fields(&decision(Outcome::Admitted));
        assert_eq!(policy, r#""minute";q=60;w=60, "day";q=1000;w=86400"#);
        assert_eq!(state, r#""minute";r=59;t=42, "day";r=999;t=18820"#);
    }

    /// Returns a decision on a key that is banned for 299.001 s.
    fn banned(outcome: Outcome) -> Decision {
        let decision = decision(outcome);
        let ban = BanPeriod { from: decision.now, until: UnixMillis(decision.now.0 + 299_001) };
        Decision { ban: Some(ban), ..decision }
    }

    #[test]
    fn during_a_ban_all_fields_show_nothing_remaining_until_its_end() {
        let banned = banned(Outcome::Admitted);
        assert_eq!((banned.shown().limit, banned.shown().remaining), (60, 0));
        assert_eq!(ietf_fields(&banned)[1], r#""minute";r=0;t=300, "day";r=999;t=18820"#);
        assert_eq!(banned.retry_after_secs(), Some(300));
    }

    #[test]
    fn during_a_ban_retry_after_also_covers_an_exhausted_day() {
        let banned = banned(Outcome::QuotaExceeded);
        let day = WindowView { remaining: 0, ..banned.day };
        assert_eq!(Decision { day, ..banned }.retry_after_secs(), Some(18_820));
        assert_eq!(banned.shown().limit, 60, "the minute's limit, nothing remaining, and the ban's end");
    }

    #[test]
    fn retry_after_is_never_zero() {
        let refused = decision(Outcome::RateLimited);
        let over = WindowView { remaining: 0, resets_at: refused.now, ..refused.minute };
        assert_eq!(Decision { minute: over, ..refused }.retry_after_secs(), Some(1));
    }

    #[test]
    fn a_refusal_names_limit_window_and_reset_in_utc() {
        let message = |outcome| decision(outcome).refusal_message("requests");
        assert_eq!(message(Outcome::Admitted), None);
        assert_eq!(
            message(Outcome::RateLimited).unwrap(),
            "the limit of 60 requests per minute is used up; it resets at 2026-11-20T18:47:03Z"
        );
        assert_eq!(
            message(Outcome::QuotaExceeded).unwrap(),
            "the limit of 1000 requests per UTC day is used up; it resets at 2026-11-21T00:00:00Z"
        );
    }

    #[test]
    fn a_ban_shows_its_origin_and_reason() {
        let message = |cause| banned(Outcome::RateLimited).ban_message(&cause);
        assert_eq!(
            message(BanCause::IgnoredRefusals),
            "the API key is banned until 2026-11-20T18:51:20Z, because it kept sending after 429"
        );
        let by_hand = "the API key was banned by the operator until 2026-11-20T18:51:20Z";
        assert_eq!(message(BanCause::Operator(None)), by_hand);
        assert_eq!(message(BanCause::Operator(Some("a leak".into()))), format!("{by_hand}: a leak"));
    }
}
