use std::net::{IpAddr, Ipv4Addr};

use petstore_rate_limit::{BanPeriod, Decision, Scope};

use super::{RefusalCause as C, *};

const THIS_MINUTE: i64 = 30_000_000;

fn address(number: u32) -> ClientAddress {
    IpAddr::V4(Ipv4Addr::from_bits(number)).into()
}

/// Returns a refusal for this cause of a key of the account; without an account if that is 0.
fn refusal(cause: i32, account_id: i64, key_id: &str, number: usize) -> Refusal {
    let (request_id, key_id) = (format!("request-{number}"), key_id.to_owned());
    Refusal { request_id, cause, account_id, key_id, ..Refusal::default() }
}

impl RefusalLedger {
    fn note_limited(&self, account_id: i64, key_id: &str, number: usize) {
        self.note(THIS_MINUTE, refusal(1, account_id, key_id, number), address(1));
    }
}

/// Returns the number of refusals that are kept, the number of requests that they represent, and the number
/// that were counted.
fn sums(refusals: &RefusalLedger) -> (usize, i64, i64) {
    let (reported, counts) = refusals.drain();
    let requests = reported.iter().map(|refusal| 1 + refusal.repeats).sum();
    (reported.len(), requests, counts.iter().map(|count| count.requests).sum())
}

#[test]
fn an_account_refused_constantly_fills_few_places_and_every_request_counts() {
    let refusals = RefusalLedger::default();
    for number in 0..10_000 {
        refusals.note_limited(7, "loud", number);
    }
    refusals.note_limited(8, "quiet", 1);
    let (kept, counts) = refusals.drain();
    let newest = kept.iter().max_by_key(|refusal| refusal.repeats).unwrap();
    assert_eq!((newest.request_id.as_str(), kept.len()), ("request-9999", MAX_OF_KIND + 1));
    assert_eq!(kept.iter().map(|refusal| 1 + refusal.repeats).sum::<i64>(), 10_001);
    assert_eq!(counts, [RefusalCount { minute: THIS_MINUTE, cause: 1, requests: 10_001 }]);
    for number in 0..10_000 {
        refusals.note_limited(7, &format!("key {}", number % 100), number);
    }
    let (kept, _, counted) = sums(&refusals);
    assert_eq!((kept, counted), (MAX_OF_KIND, 10_000), "many keys have no more places than one");
    assert_eq!(sums(&refusals), (0, 0, 0));
}

#[test]
fn the_first_refusal_of_a_key_is_kept_however_many_another_key_of_the_account_has() {
    for others in [0, 380] {
        let refusals = RefusalLedger::default();
        for number in 0..100 {
            refusals.note_limited(7, "loud", number);
        }
        for account in 100..100 + others {
            refusals.note_limited(account, "k", 1); // until the sample is full
        }
        for number in [777, 778] {
            refusals.note_limited(7, "quiet", number);
        }
        let (kept, _) = refusals.drain();
        let of_key = |id: &str| {
            let own = kept.iter().filter(|it| it.account_id == 7 && it.key_id == id);
            own.map(|it| 1 + it.repeats).sum::<i64>()
        };
        assert_eq!((of_key("loud"), of_key("quiet")), (100, 2), "{others}");
        assert!(kept.iter().any(|it| it.key_id == "quiet" && it.request_id == "request-778"), "{others}");
    }
}

#[test]
fn a_new_cause_has_room_despite_any_number_of_other_refusals() {
    let refusals = RefusalLedger::default();
    for number in 0..10_000 {
        (0..20).for_each(|account| refusals.note_limited(account + 1, "k", number));
    }
    for account in 1..=300 {
        refusals.note(THIS_MINUTE, refusal(2, account, "k", 77), address(1));
    }
    let (kept, counts) = refusals.drain();
    let of_bans = kept.iter().filter(|refusal| refusal.cause == 2).count();
    assert_eq!((kept.len(), of_bans), (MAX_OF_ACCOUNTS, 300));
    for account in 1..=20 {
        let limited = kept.iter().filter(|it| it.account_id == account && it.cause == 1);
        assert_eq!(limited.map(|refusal| 1 + refusal.repeats).sum::<i64>(), 10_000);
    }
    assert_eq!(counts.iter().map(|count| count.requests).sum::<i64>(), 200_300);
}

#[test]
fn a_flood_without_keys_leaves_room_for_accounts_and_other_addresses() {
    let refusals = RefusalLedger::default();
    let invalid = |number, name| refusals.note(THIS_MINUTE, refusal(3, 0, "", name), address(number));
    (0..10_000).for_each(|number| invalid(number % 3, 1));
    invalid(9, 77);
    (1..=1_000).for_each(|account| refusals.note_limited(account, "k", 1));
    let (kept, counts) = refusals.drain();
    assert_eq!(kept.len(), MAX_OF_ACCOUNTS + MAX_OF_ADDRESSES, "that is what a report may have");
    assert!(kept.iter().any(|refusal| refusal.request_id == "request-77" && refusal.account_id == 0));
    assert_eq!(counts.iter().map(|count| count.requests).sum::<i64>(), 11_001);
    (0..10_000).for_each(|number| invalid(number, 1));
    assert_eq!(sums(&refusals), (MAX_OF_ADDRESSES, 100, 10_000));
}

#[test]
fn a_long_outage_does_not_fill_the_memory() {
    let refusals = RefusalLedger::default();
    (0..2_000).for_each(|minute| refusals.note(minute, refusal(3, 0, "", 1), address(1)));
    assert_eq!(sums(&refusals), (MAX_OF_KIND, 2_000, 1_000));
}

const NOW: u64 = 1_795_200_380_000;

#[test]
fn a_refusal_names_its_cause_and_its_window_or_ban_and_outages_are_not_refusals() {
    let window = |limit, resets_at| WindowView { limit, remaining: 0, resets_at: UnixMillis(resets_at) };
    let decision = |outcome| Decision {
        outcome,
        is_strike: false,
        struck_out_at: None,
        now: UnixMillis(NOW),
        minute: window(60, NOW + 42_000),
        day: window(1_000, 1_795_219_200_000),
        ban: Some(BanPeriod { from: UnixMillis(NOW), until: UnixMillis(NOW + 300_000) }),
        scope: Scope::Shared,
    };
    let (minute, day) = (decision(Outcome::RateLimited), decision(Outcome::QuotaExceeded));
    let limited = |decision| ApiError::OverLimit(decision, "requests");
    let banned = |cause| ApiError::Banned(Box::new(decision(Outcome::Admitted)), cause);
    let minute_of = |cause| (cause, 60, Some((1_795_200_362_000, 1_795_200_422_000)));
    let day_of = |cause| (cause, 1_000, Some((1_795_132_800_000, 1_795_219_200_000)));
    let ban_of = |cause| (cause, 0, Some((1_795_200_380_000, 1_795_200_680_000)));
    for (error, own_limit, expected) in [
        (limited(minute), None, Some(minute_of(C::MinuteLimit))),
        (limited(minute), Some(C::UsageLimit), Some(minute_of(C::UsageLimit))),
        (limited(day), None, Some(day_of(C::DayLimit))),
        (limited(day), Some(C::AddressLimit), Some(day_of(C::AddressLimit))),
        (banned(BanCause::IgnoredRefusals), None, Some(ban_of(C::LimiterBan))),
        (banned(BanCause::Operator(None)), None, Some(ban_of(C::OperatorBan))),
        (ApiError::MissingApiKey, Some(C::AddressLimit), Some((C::MissingKey, 0, None))),
        (ApiError::AccountSuspended { reason: "".into() }, None, Some((C::AccountSuspended, 0, None))),
        (ApiError::ApiKeyNotChecked, None, None),
        (ApiError::UriTooLong, None, None),
    ] {
        let found = refusal_by(&error, own_limit);
        let found = found.map(|it| (it.cause(), it.limit, it.since_ms.zip(it.until_ms)));
        assert_eq!(found, expected, "{error}");
    }
}
