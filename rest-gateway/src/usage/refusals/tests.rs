use std::net::{IpAddr, Ipv4Addr};

use http::{HeaderMap, HeaderValue};
use petstore_clock::Clock;
use petstore_proto::internal::v1::Plan;
use petstore_rate_limit::Quota;

use super::*;

const MINUTE: i64 = 30_000_000;

fn request_id(name: &str) -> RequestId {
    let headers =
        HeaderMap::from_iter([(crate::request_id::X_REQUEST_ID, HeaderValue::from_str(name).unwrap())]);
    crate::request_id::request_id(&headers, &Clock::system())
}

fn address(number: u32) -> Who {
    Who::Address(ClientAddress::from(IpAddr::V4(Ipv4Addr::from_bits(number))))
}

/// Returns a request with a key that does not exist.
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

/// Returns the number of refusals that are kept, the number of requests that they represent, and the number
/// that were counted.
fn sums(refusals: &RefusalLedger) -> (usize, i64, i64) {
    let (reported, counts) = refusals.take();
    let requests = reported.iter().map(|refusal| 1 + refusal.repeats).sum();
    (reported.len(), requests, counts.iter().map(|count| count.requests).sum())
}

#[test]
fn a_refusal_is_reported_once_with_its_explanation() {
    let refusals = RefusalLedger::default();
    refusals.note(MINUTE, limited(&key(7, "k"), 1));
    let (reported, counts) = refusals.take();
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
    assert_eq!(reported, [expected]);
    let cause = RefusalCause::MinuteLimit.into();
    assert_eq!(counts, [internal::RefusalCount { minute: MINUTE, cause, requests: 1 }]);
    assert_eq!(sums(&refusals), (0, 0, 0));
}

#[test]
fn an_account_refused_constantly_fills_few_places_and_every_request_counts() {
    let refusals = RefusalLedger::default();
    let (loud, quiet) = (key(7, "loud"), key(8, "quiet"));
    for number in 0..10_000 {
        refusals.note(MINUTE, limited(&loud, number));
    }
    refusals.note(MINUTE, limited(&quiet, 1));
    let (kept, counts) = refusals.take();
    let newest = kept.iter().max_by_key(|refusal| refusal.repeats).unwrap();
    assert_eq!((newest.request_id.as_str(), kept.len()), ("request-9999", MAX_OF_KIND + 1));
    assert_eq!(kept.iter().map(|refusal| 1 + refusal.repeats).sum::<i64>(), 10_001);
    assert_eq!(counts[0].requests, 10_001);
    let keys: Vec<_> = (0..100).map(|number| key(7, &format!("key {number}"))).collect();
    for (number, key) in keys.iter().cycle().take(10_000).enumerate() {
        refusals.note(MINUTE, limited(key, number));
    }
    let (kept, _, counted) = sums(&refusals);
    assert_eq!((kept, counted), (MAX_OF_KIND, 10_000), "many keys have no more places than one");
}

#[test]
fn the_first_refusal_of_a_key_is_kept_however_many_another_key_of_the_account_has() {
    for others in [0, 380] {
        let refusals = RefusalLedger::default();
        let (loud, quiet) = (key(7, "loud"), key(7, "quiet"));
        for number in 0..100 {
            refusals.note(MINUTE, limited(&loud, number));
        }
        for account in 100..100 + others {
            refusals.note(MINUTE, limited(&key(account, "k"), 1)); // until the sample is full
        }
        for number in [777, 778] {
            refusals.note(MINUTE, limited(&quiet, number));
        }
        let (kept, _) = refusals.take();
        let of_key = |id: &str| {
            let own = kept.iter().filter(|it| it.account_id == 7 && it.key_id == id);
            own.clone().map(|it| 1 + it.repeats).sum::<i64>()
        };
        assert_eq!((of_key("loud"), of_key("quiet")), (100, 2), "{others}");
        assert!(kept.iter().any(|it| it.key_id == "quiet" && it.request_id == "request-778"), "{others}");
    }
}

#[test]
fn every_refusal_is_stored_at_six_refusals_a_second() {
    let refusals = RefusalLedger::default();
    let key = key(7, "k");
    for number in 0..30 {
        refusals.note(MINUTE, limited(&key, number));
    }
    assert_eq!(sums(&refusals), (30, 30, 30));
}

#[test]
fn a_new_cause_has_room_despite_any_number_of_other_refusals() {
    let refusals = RefusalLedger::default();
    for number in 0..10_000 {
        for account in 0..20 {
            refusals.note(MINUTE, limited(&key(account, "k"), number));
        }
    }
    let banned = |account, number| {
        let by = RefusedBy { cause: RefusalCause::LimiterBan, limit: None, period: None };
        RefusedRequest { by, ..limited(&key(account, "k"), number) }
    };
    for account in 0..300 {
        refusals.note(MINUTE, banned(account, 77));
    }
    let (kept, counts) = refusals.take();
    let of_bans = kept.iter().filter(|refusal| refusal.cause() == RefusalCause::LimiterBan).count();
    assert_eq!((kept.len(), of_bans), (MAX_OF_ACCOUNTS, 300));
    for account in 0..20 {
        let minute =
            kept.iter().filter(|it| it.account_id == account && it.cause() == RefusalCause::MinuteLimit);
        let requests: i64 = minute.clone().map(|refusal| 1 + refusal.repeats).sum();
        assert_eq!(
            (requests, minute.max_by_key(|it| it.repeats).unwrap().request_id.as_str()),
            (10_000, "request-9999")
        );
    }
    assert_eq!(counts.iter().map(|count| count.requests).sum::<i64>(), 200_300);
}

#[test]
fn a_flood_without_keys_leaves_room_for_accounts_and_other_addresses() {
    let refusals = RefusalLedger::default();
    let invalid = |number, name| RefusedRequest { who: address(number), ..invalid_key(name) };
    for number in 0..10_000 {
        refusals.note(MINUTE, invalid(number % 3, "of-the-flood"));
    }
    refusals.note(MINUTE, invalid(9, "request-1"));
    for account in 1..=1_000 {
        refusals.note(MINUTE, limited(&key(account, "k"), 1));
    }
    let (kept, counts) = refusals.take();
    assert_eq!(kept.len(), MAX_OF_ACCOUNTS + MAX_OF_ADDRESSES, "that is what a report may have");
    assert!(kept.iter().any(|refusal| refusal.request_id == "request-1" && refusal.account_id == 0));
    assert_eq!(counts.iter().map(|count| count.requests).sum::<i64>(), 11_001);
    for number in 0..10_000 {
        refusals.note(MINUTE, invalid(number, "of-the-flood"));
    }
    assert_eq!(sums(&refusals), (MAX_OF_ADDRESSES, 100, 10_000));
}

#[test]
fn a_long_outage_does_not_fill_the_memory() {
    let refusals = RefusalLedger::default();
    for minute in 0..2_000 {
        refusals.note(minute, invalid_key("request-1"));
    }
    assert_eq!(sums(&refusals), (MAX_OF_KIND, 2_000, 1_000));
}
