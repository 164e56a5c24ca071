use std::net::{IpAddr, Ipv4Addr};

use http::{HeaderMap, HeaderValue};
use petstore_clock::Clock;

use super::*;
use crate::{keys::Plan, rate_limit::Quota};

const MINUTE: i64 = 30_000_000;

fn request_id(name: &str) -> RequestId {
    let headers =
        HeaderMap::from_iter([(crate::request_id::X_REQUEST_ID, HeaderValue::from_str(name).unwrap())]);
    RequestId::from_headers(&headers, &Clock::system())
}

fn address(number: u32) -> Who {
    Who::Address(ClientAddress::from(IpAddr::V4(Ipv4Addr::from_bits(number))))
}

/// A request with a key that does not exist.
pub(in crate::usage) fn invalid_key(name: &str) -> RefusedRequest {
    let by = RefusedBy { cause: RefusalCause::InvalidKey, limit: None, period: None };
    RefusedRequest { request_id: request_id(name), at: UnixMillis(7), by, who: address(1) }
}

fn key(account_id: i64, key_id: &str) -> Arc<KnownKey> {
    let quota = Quota { per_minute: 60, per_day: 1_000 };
    Arc::new(KnownKey::new(key_id.into(), account_id, Plan::Free, quota))
}

fn limited(key: &Arc<KnownKey>, number: usize) -> RefusedRequest {
    let period = Some((UnixMillis(60_000), UnixMillis(120_000)));
    let by = RefusedBy { cause: RefusalCause::MinuteLimit, limit: Some(60), period };
    RefusedRequest {
        request_id: request_id(&format!("request-{number}")),
        at: UnixMillis(61_000),
        by,
        who: Who::Key(Arc::clone(key)),
    }
}

/// How many refusals stand for how many requests, and how many were counted.
fn sums(refusals: &RefusalLedger) -> (usize, i64, i64) {
    let (told, counts) = refusals.take();
    let requests = told.iter().map(|refusal| 1 + refusal.repeats).sum();
    (told.len(), requests, counts.iter().map(|count| count.requests).sum())
}

#[test]
fn a_refusal_is_told_with_all_that_explains_it_once() {
    let refusals = RefusalLedger::default();
    refusals.note(MINUTE, limited(&key(7, "k"), 1));
    let (told, counts) = refusals.take();
    let expected = internal::Refusal {
        request_id: "request-1".to_owned(),
        refused_at_ms: 61_000,
        cause: RefusalCause::MinuteLimit.into(),
        account_id: 7,
        key_id: "k".to_owned(),
        limit: 60,
        since_ms: Some(60_000),
        until_ms: Some(120_000),
        repeats: 0,
    };
    assert_eq!(told, [expected]);
    let cause = RefusalCause::MinuteLimit.into();
    assert_eq!(counts, [internal::RefusalCount { minute: MINUTE, cause, requests: 1 }]);
    assert_eq!(sums(&refusals), (0, 0, 0));
}

#[test]
fn an_account_that_is_refused_all_the_time_has_few_places_and_all_its_requests_count() {
    let refusals = RefusalLedger::default();
    let (loud, quiet) = (key(7, "loud"), key(8, "quiet"));
    for number in 0..10_000 {
        refusals.note(MINUTE, limited(&loud, number));
    }
    refusals.note(MINUTE, limited(&quiet, 1));
    assert_eq!(sums(&refusals), (usize::from(MOST_OF_KIND) + 1, 10_001, 10_001));
    let keys: Vec<_> = (0..100).map(|number| key(7, &format!("key {number}"))).collect();
    for (number, key) in keys.iter().cycle().take(10_000).enumerate() {
        refusals.note(MINUTE, limited(key, number));
    }
    refusals.note(MINUTE, limited(&quiet, 1));
    let (told, _, counted) = sums(&refusals);
    assert_eq!(
        (told, counted),
        (MOST_OF_SUBJECT + 1, 10_001),
        "many keys have no more places than one account"
    );
}

#[test]
fn a_flood_without_keys_leaves_places_for_accounts() {
    let refusals = RefusalLedger::default();
    for number in 0..10_000 {
        refusals.note(MINUTE, RefusedRequest { who: address(number), ..invalid_key("request-1") });
    }
    assert_eq!(sums(&refusals), (MOST_ANONYMOUS, 100, 10_000));
    for number in 0..10_000 {
        refusals.note(MINUTE, RefusedRequest { who: address(number), ..invalid_key("request-1") });
    }
    for account in 1..=1_000 {
        refusals.note(MINUTE, limited(&key(account, "k"), 1));
    }
    let (told, counts) = refusals.take();
    assert_eq!((told.len(), told.iter().filter(|refusal| refusal.account_id > 0).count()), (MOST, 400));
    assert_eq!(counts.iter().map(|count| count.requests).sum::<i64>(), 11_000);
}

#[test]
fn a_long_outage_does_not_fill_the_memory() {
    let refusals = RefusalLedger::default();
    for minute in 0..2_000 {
        refusals.note(minute, invalid_key("request-1"));
    }
    assert_eq!(sums(&refusals), (usize::from(MOST_OF_KIND), 2_000, 1_000));
}
