//! Shows a limiter's decision to the client (docs/contract.md, 6.5).

use bytes::BytesMut;
use http::{HeaderMap, HeaderName, HeaderValue};
use petstore_rate_limit::{Decision, Scope, put_number};

const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");
const SCOPE: HeaderName = HeaderName::from_static("x-ratelimit-scope");
const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const STATE: HeaderName = HeaderName::from_static("ratelimit");

/// Writes the decision's header fields, each exactly once, and replaces earlier values. The values share one
/// allocation.
pub(super) fn write(decision: &Decision, headers: &mut HeaderMap) {
    let shown = decision.shown();
    let mut text = BytesMut::with_capacity(160); // it only grows for very large numbers
    for (name, number) in
        [(LIMIT, shown.limit), (REMAINING, shown.remaining), (RESET, shown.resets_at.as_secs_ceil())]
    {
        put_number(&mut text, number);
        insert(headers, name, &mut text);
    }
    decision.write_rate_limit_policy(&mut text);
    insert(headers, POLICY, &mut text);
    decision.write_rate_limit(&mut text);
    insert(headers, STATE, &mut text);
    if decision.scope == Scope::Node {
        headers.insert(SCOPE, HeaderValue::from_static("node"));
    }
}

/// Moves the text into the field.
fn insert(headers: &mut HeaderMap, name: HeaderName, text: &mut BytesMut) {
    if let Ok(value) = HeaderValue::from_maybe_shared(text.split().freeze()) {
        headers.insert(name, value);
    }
}

#[cfg(test)]
mod tests {
    use petstore_clock::UnixMillis;
    use petstore_rate_limit::{Outcome, WindowView};

    use super::*;

    fn decision(scope: Scope) -> Decision {
        Decision {
            outcome: Outcome::Admitted,
            is_strike: false,
            struck_out_at: None,
            now: UnixMillis(1_764_892_790_500),
            minute: WindowView { limit: 60, remaining: 59, resets_at: UnixMillis(1_764_892_832_001) },
            day: WindowView { limit: 1_000, remaining: 999, resets_at: UnixMillis(1_764_979_200_000) },
            ban: None,
            scope,
        }
    }

    #[test]
    fn both_windows_are_shown_and_the_tighter_one_in_every_field() {
        let mut headers = HeaderMap::new();
        headers.append(LIMIT, HeaderValue::from_static("7"));
        write(&decision(Scope::Shared), &mut headers);
        let shown = |name: HeaderName| {
            assert_eq!(headers.get_all(&name).iter().count(), 1, "{name}");
            headers[&name].to_str().unwrap()
        };
        assert_eq!((shown(LIMIT), shown(REMAINING), shown(RESET)), ("60", "59", "1764892833"));
        assert_eq!(shown(POLICY), r#""minute";q=60;w=60, "day";q=1000;w=86400"#);
        assert_eq!(shown(STATE), r#""minute";r=59;t=42, "day";r=999;t=86410"#);
        assert!(!headers.contains_key(SCOPE));
    }

    #[test]
    fn a_gateway_that_counts_locally_says_so() {
        let mut headers = HeaderMap::new();
        write(&decision(Scope::Node), &mut headers);
        assert_eq!(headers[SCOPE], "node");
    }
}
