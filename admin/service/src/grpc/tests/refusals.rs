//! Explanations of refused requests.

use std::collections::BTreeSet;

use petstore_proto::{
    admin::v1::{RefusalCause, RefusalCause as C},
    internal::v1::{Refusal, ReportUsageRequest},
};

use super::*;

#[tokio::test]
async fn current_refusals_are_explained_by_the_state_of_account_and_keys() {
    let shop = Shop::open().await;
    let mut admin = local(&shop);
    let (_, used) = acme(&shop).await;
    let revoked = admin.create_key(new_key("acme")).await.unwrap().into_inner().key.unwrap().id;
    let facts = |explanations: Vec<pb::RefusalExplanation>| {
        let fact = |it: pb::RefusalExplanation| {
            let [start, end] =
                [it.start_time, it.end_time].map(|time| time.map(|time| time.seconds - SECOND_0));
            (it.code, it.in_force, it.key_id, start, end, it.reason)
        };
        explanations.into_iter().map(fact).collect::<Vec<_>>()
    };
    let codes = |explanations: Vec<pb::RefusalExplanation>| {
        explanations.into_iter().map(|it| it.code).collect::<Vec<_>>()
    };
    assert_eq!(explanations(&shop, of_account("acme")).await, []);

    shop.hand.advance(Duration::from_mins(1));
    admin.create_ban(ban(&used)).await.unwrap();
    admin.revoke_key(pb::RevokeKeyRequest { key_id: revoked.clone() }).await.unwrap();
    shop.hand.advance(Duration::from_mins(1));
    admin.suspend_account(suspend("acme")).await.unwrap();
    let in_force = |code: &str, key_id: &str, start, end, reason: &str| {
        (code.to_owned(), true, key_id.to_owned(), Some(start), end, reason.to_owned())
    };
    let suspended = in_force("ACCOUNT_SUSPENDED", "", 120, None, "open invoice");
    let banned = in_force("API_KEY_BANNED", &used, 60, Some(3_660), "open invoice");
    let ended = in_force("API_KEY_REVOKED", &revoked, 60, None, "");
    let of_account_now = facts(explanations(&shop, of_account("acme")).await);
    assert_eq!(of_account_now[0], suspended);
    assert!(of_account_now.len() == 3 && of_account_now.contains(&banned) && of_account_now.contains(&ended));
    assert_eq!(facts(explanations(&shop, of_key(&used)).await), [suspended.clone(), banned]);
    assert_eq!(facts(explanations(&shop, of_key(&revoked)).await), [suspended, ended]);
    // The end of a key is explained to a call that names the key, also long afterwards.
    shop.hand.advance(Duration::from_hours(48));
    assert_eq!(codes(explanations(&shop, of_account("acme")).await), ["ACCOUNT_SUSPENDED"]);
    assert_eq!(codes(explanations(&shop, of_key(&revoked)).await), ["ACCOUNT_SUSPENDED", "API_KEY_REVOKED"]);
}

/// Time at which tests begin, in Unix seconds.
const SECOND_0: i64 = 1_800_000_000;

/// Returns a refusal two seconds after the test began, in a window that began with the test.
fn refusal(request_id: &str, cause: RefusalCause) -> Refusal {
    let since = i64::try_from(START.0).unwrap();
    Refusal {
        request_id: request_id.to_owned(),
        refused_at_ms: since + 2_000,
        cause: cause.into(),
        since_ms: Some(since),
        until_ms: Some(since + 60_000),
        ..Default::default()
    }
}

async fn report(shop: &Shop, refusals: Vec<Refusal>) {
    let reporter = refusals[0].request_id.clone();
    let report = ReportUsageRequest { reporter, number: 1, refusals, ..Default::default() };
    reports(shop).report_usage(report).await.unwrap();
}

async fn answer(shop: &Shop, request: pb::ExplainRefusalRequest) -> pb::ExplainRefusalResponse {
    local(shop).explain_refusal(request).await.unwrap().into_inner()
}

async fn explanations(shop: &Shop, request: pb::ExplainRefusalRequest) -> Vec<pb::RefusalExplanation> {
    answer(shop, request).await.explanations
}

fn request(id: &str) -> pb::ExplainRefusalRequest {
    pb::ExplainRefusalRequest { request_id: id.to_owned(), ..Default::default() }
}

fn of_account(name: &str) -> pb::ExplainRefusalRequest {
    pb::ExplainRefusalRequest { account: name.to_owned(), ..Default::default() }
}

fn of_key(id: &str) -> pb::ExplainRefusalRequest {
    pb::ExplainRefusalRequest { key_id: id.to_owned(), ..Default::default() }
}

/// Creates the account `acme` on the free plan and one key. Returns their identifiers.
async fn acme(shop: &Shop) -> (i64, String) {
    let mut admin = local(shop);
    let account = admin.create_account(new_account("acme")).await.unwrap().into_inner().account.unwrap();
    let key = admin.create_key(new_key("acme")).await.unwrap().into_inner().key.unwrap();
    (account.id, key.id)
}

#[tokio::test]
async fn a_refused_request_is_explained_by_limit_window_and_remedy() {
    let shop = Shop::open().await;
    let (account_id, key_id) = acme(&shop).await;
    let refused = Refusal {
        account_id,
        key_id,
        limit: 60,
        repeats: 3,
        ..refusal("order-66", RefusalCause::MinuteLimit)
    };
    report(&shop, vec![refused]).await;
    shop.hand.advance(Duration::from_secs(30));
    let explanation = explanations(&shop, request("order-66")).await.remove(0);
    let window = |seconds: i64| Some(prost_types::Timestamp { seconds: 1_800_000_000 + seconds, nanos: 0 });
    let expected = pb::RefusalExplanation {
        cause: RefusalCause::MinuteLimit.into(),
        code: "RATE_LIMITED".to_owned(),
        account: "acme".to_owned(),
        key_id: String::new(),
        limit: 60,
        start_time: window(0),
        end_time: window(60),
        in_force: true,
        refused_requests: 1,
        last_request_id: "order-66".to_owned(),
        last_refusal_time: window(2),
        sentence: "Account acme: used up its 60 requests a minute.".to_owned(),
        remedy:
            "A larger plan takes effect within 5 seconds. Otherwise have its users spread their requests, \
             and wait for Retry-After after a 429."
                .to_owned(),
        first_refusal_time: window(2),
        lift_time: None,
        reason: String::new(),
    };
    assert_eq!(explanation, expected);

    // A new plan applies in the current window.
    let pro = pb::Account { plan: pb::Plan::Pro.into(), ..Default::default() };
    local(&shop).update_account(update("acme", pro, &["plan"])).await.unwrap();
    let explanation = explanations(&shop, request("order-66")).await.remove(0);
    assert!(!explanation.in_force);
    let said =
        "Account acme: used up 60 requests, although its plan allows 300 now: the plan was raised since, or";
    assert!(explanation.sentence.starts_with(said), "{}", explanation.sentence);
    shop.hand.advance(Duration::from_secs(30));
    assert!(!explanations(&shop, request("order-66")).await[0].in_force, "the window is over");
}

#[tokio::test]
async fn every_cause_has_its_own_sentence() {
    let shop = Shop::open().await;
    let (account_id, key_id) = acme(&shop).await;
    let mut sentences = BTreeSet::new();
    let causes = (1..).map_while(|number| C::try_from(number).ok());
    for (number, cause) in causes.enumerate() {
        let id = format!("request-{number}");
        let has_key = !matches!(cause, C::InvalidKey | C::MissingKey | C::AddressLimit);
        let (account_id, key_id) = if has_key { (account_id, key_id.clone()) } else { (0, String::new()) };
        report(&shop, vec![Refusal { account_id, key_id, limit: 60, ..refusal(&id, cause) }]).await;
        let explanation = explanations(&shop, request(&id)).await.remove(0);
        assert_eq!(explanation.cause(), cause);
        assert!(explanation.sentence.ends_with('.') && sentences.insert(explanation.sentence), "{cause:?}");
        assert!(explanation.remedy.ends_with('.'), "{cause:?}");
        assert_eq!(explanation.account, if has_key { "acme" } else { "" });
    }
    assert_eq!(sentences.len(), 13);
}

#[tokio::test]
async fn a_refusal_names_since_when_and_why_its_key_or_account_is_refused() {
    let shop = Shop::open().await;
    let (account_id, banned) = acme(&shop).await;
    let mut admin = local(&shop);
    let revoked = admin.create_key(new_key("acme")).await.unwrap().into_inner().key.unwrap().id;
    let expired = pb::CreateKeyRequest {
        expiration: Some(pb::create_key_request::Expiration::Ttl(prost_types::Duration {
            seconds: 1,
            nanos: 0,
        })),
        ..new_key("acme")
    };
    let expired = admin.create_key(expired).await.unwrap().into_inner().key.unwrap().id;
    admin.create_ban(ban(&banned)).await.unwrap();
    admin.revoke_key(pb::RevokeKeyRequest { key_id: revoked.clone() }).await.unwrap();
    admin.suspend_account(suspend("acme")).await.unwrap();
    let hour_later = i64::try_from(START.0).unwrap() + 3_599_000;
    let cases = [
        (C::OperatorBan, &banned, 0, Some(3_600)),
        (C::AccountSuspended, &banned, 0, None),
        (C::KeyRevoked, &revoked, 0, None),
        (C::KeyExpired, &expired, 1, None),
    ];
    shop.hand.advance(Duration::from_secs(3_599));
    for (cause, key_id, start, end) in cases {
        let id = format!("refused-{}", cause.as_str_name());
        let until_ms = (cause == C::OperatorBan).then_some(hour_later + 1_000);
        let refused = Refusal { refused_at_ms: hour_later, since_ms: None, until_ms, ..refusal(&id, cause) };
        report(&shop, vec![Refusal { account_id, key_id: key_id.clone(), ..refused }]).await;
        let explanation = explanations(&shop, request(&id)).await.remove(0);
        let period = [explanation.start_time, explanation.end_time];
        let period = period.map(|time| time.map(|time| time.seconds - SECOND_0));
        assert_eq!((period, explanation.in_force), ([Some(start), end], true), "{explanation:?}");
    }
    // A ban that ended by itself has its end.
    shop.hand.advance(Duration::from_mins(1));
    let of_ban = explanations(&shop, request("refused-REFUSAL_CAUSE_OPERATOR_BAN")).await.remove(0);
    assert!(!of_ban.in_force && of_ban.end_time.is_some() && of_ban.lift_time.is_none(), "{of_ban:?}");
}

#[tokio::test]
async fn a_request_id_that_others_use_hides_no_account() {
    let shop = Shop::open().await;
    let (account_id, _) = acme(&shop).await;
    let loud =
        local(&shop).create_account(new_account("loud")).await.unwrap().into_inner().account.unwrap().id;
    let of = |account_id, cause, late| {
        let refused = refusal("request-1", cause);
        Refusal { account_id, refused_at_ms: refused.refused_at_ms + late, ..refused }
    };
    let mut refusals = vec![of(account_id, C::MinuteLimit, 0), of(account_id, C::KeyRevoked, 1)];
    refusals.extend((2..42).map(|late| of(loud, C::DayLimit, late)));
    refusals.push(of(0, C::InvalidKey, 50));
    report(&shop, refusals).await;
    let causes = |explanations: Vec<pb::RefusalExplanation>| {
        let mut causes: Vec<_> = explanations.iter().map(|it| (it.account.clone(), it.cause())).collect();
        causes.sort_unstable();
        causes
    };
    let newest = [("", C::InvalidKey), ("acme", C::KeyRevoked), ("loud", C::DayLimit)];
    let newest = newest.map(|(account, cause)| (account.to_owned(), cause));
    assert_eq!(causes(explanations(&shop, request("request-1")).await), newest, "the newest of each account");
    let within = pb::ExplainRefusalRequest { request_id: "request-1".into(), ..of_account("acme") };
    let both = [C::MinuteLimit, C::KeyRevoked].map(|cause| ("acme".to_owned(), cause));
    assert_eq!(causes(explanations(&shop, within).await), both, "all of the account that is named");
}

#[tokio::test]
async fn without_a_stored_refusal_the_answer_explains_sampling_and_names_the_log() {
    let shop = Shop::open().await;
    let (_, key_id) = acme(&shop).await;
    let of_request =
        |account: &str| pb::ExplainRefusalRequest { account: account.into(), ..request("order-67") };
    for asked in [of_request(""), of_request("acme"), of_account("acme"), of_key(&key_id)] {
        let (names_key, names_account) = (!asked.key_id.is_empty(), !asked.account.is_empty());
        let answer = answer(&shop, asked).await;
        assert!(answer.note.contains(" a sample ") && answer.note.contains(" the log"), "{}", answer.note);
        assert_eq!(answer.explanations, []);
        assert_eq!(answer.account.is_some(), names_account || names_key);
        assert_eq!(answer.key.map(|key| key.id), names_key.then(|| key_id.clone()));
    }
    local(&shop).suspend_account(suspend("acme")).await.unwrap();
    let unknown = answer(&shop, of_request("acme")).await;
    assert_eq!((unknown.explanations.len(), unknown.explanations[0].cause()), (1, C::AccountSuspended));
    assert_eq!(answer(&shop, of_account("acme")).await.note, "", "the suspension is the answer");
}

#[tokio::test]
async fn invalid_requests_for_explanations_are_refused() {
    let shop = Shop::open().await;
    let (_, key_id) = acme(&shop).await;
    let rule = "requestId must be 8 to 64 ASCII letters, digits, '.', '_' and '-'";
    for (wrong, message) in [
        (pb::ExplainRefusalRequest::default(), "account is required, or keyId or requestId"),
        (
            pb::ExplainRefusalRequest { account: "acme".into(), ..of_key(&key_id) },
            "keyId cannot be combined with account or requestId",
        ),
        (request("a b"), rule),
        (
            request(ApiKey::generate(petstore_caller::api_key::Environment::Production).expose()),
            "requestId must not hold an API key or a token",
        ),
    ] {
        let refusal = local(&shop).explain_refusal(wrong).await.unwrap_err();
        assert_eq!(verdict(&refusal), refused(Code::InvalidArgument, "INVALID_PARAMETER", message));
    }
}

#[tokio::test]
async fn explanations_of_an_account_include_current_refusals() {
    let shop = Shop::open().await;
    let (account_id, key_id) = acme(&shop).await;
    let mine = |refused: Refusal| Refusal { account_id, key_id: key_id.clone(), ..refused };
    let limited = |id: &str, repeats, late: i64| {
        let refused = refusal(id, RefusalCause::MinuteLimit);
        let (at, until) = (refused.refused_at_ms + late, refused.until_ms.map(|until| until + late));
        mine(Refusal {
            limit: 60,
            repeats,
            refused_at_ms: at,
            since_ms: Some(at),
            until_ms: until,
            ..refused
        })
    };
    report(&shop, vec![limited("request-1", 0, 0), limited("request-2", 7, 90_000)]).await;
    shop.hand.advance(Duration::from_mins(3));
    local(&shop).create_ban(ban(&key_id)).await.unwrap();
    let banned = explanations(&shop, of_key(&key_id)).await.remove(0);
    let at = |time: prost_types::Timestamp| Some(time.seconds * 1_000);
    let by_ban = mine(Refusal {
        since_ms: at(banned.start_time.unwrap()),
        until_ms: at(banned.end_time.unwrap()),
        refused_at_ms: at(banned.start_time.unwrap()).unwrap() + 1,
        repeats: 11,
        ..refusal("request-3", RefusalCause::OperatorBan)
    });
    report(&shop, vec![by_ban]).await;
    for subject in [of_account("acme"), of_key(&key_id)] {
        let explanations = explanations(&shop, subject).await;
        let explanations: Vec<_> =
            explanations.iter().map(|it| (it.cause(), it.in_force, it.refused_requests)).collect();
        assert_eq!(
            explanations,
            [(RefusalCause::OperatorBan, true, 12), (RefusalCause::MinuteLimit, false, 9)]
        );
    }
    let explanations_of_account = explanations(&shop, of_account("acme")).await;
    assert_eq!(explanations_of_account[0].last_request_id, "request-3");
    let limited = &explanations_of_account[1];
    let times = [limited.start_time, limited.end_time, limited.first_refusal_time, limited.last_refusal_time];
    assert_eq!(times.map(|time| time.unwrap().seconds - SECOND_0), [92, 150, 2, 92]);

    local(&shop).lift_ban(pb::LiftBanRequest { key_id: key_id.clone() }).await.unwrap();
    let explanations_later = explanations(&shop, of_key(&key_id)).await;
    assert!(explanations_later.iter().all(|it| !it.in_force), "{explanations_later:?}");
    let lifted = explanations_later.iter().find(|it| it.cause() == C::OperatorBan).unwrap();
    let at = Some(prost_types::Timestamp { seconds: 1_800_000_180, nanos: 0 });
    assert_eq!((lifted.end_time, lifted.lift_time), (None, at), "{lifted:?}");
    shop.hand.advance(Duration::from_hours(24) + Duration::from_secs(1));
    assert_eq!(explanations(&shop, of_account("acme")).await, [], "of the last 24 hours");
}

#[tokio::test]
async fn a_report_of_refusals_is_bounded_and_validated() {
    let shop = Shop::open().await;
    let right = refusal("request-1", RefusalCause::InvalidKey);
    let one = |refusal: Refusal| vec![refusal];
    for (refusals, message) in [
        (vec![right.clone(); 501], "refusals must be at most 500"),
        (
            one(Refusal { request_id: "a b".into(), ..right.clone() }),
            "requestId must be 8 to 64 ASCII letters, digits, '.', '_' and '-'",
        ),
        (one(Refusal { repeats: -1, ..right.clone() }), "refusals.repeats must not be negative"),
        (one(Refusal { account_id: -1, ..right.clone() }), "refusals.account_id must not be negative"),
        (one(Refusal { key_id: "x".into(), ..right.clone() }), "refusals.key_id must be the UUID of a key"),
        (
            one(Refusal { until_ms: Some(-1), ..right.clone() }),
            "refusals.until_ms must be a time between 1970 and 9999",
        ),
    ] {
        let report = ReportUsageRequest { reporter: "run".into(), number: 1, refusals, ..Default::default() };
        let refusal = reports(&shop).report_usage(report).await.unwrap_err();
        assert_eq!(verdict(&refusal), refused(Code::InvalidArgument, "INVALID_PARAMETER", message));
    }
    // Refusals with a cause of a newer release are left out, and the others are kept.
    let newer = Refusal { cause: 99, ..right.clone() };
    report(&shop, vec![newer, Refusal { request_id: "request-2".into(), ..right }]).await;
    assert_eq!(
        (
            explanations(&shop, request("request-1")).await.len(),
            explanations(&shop, request("request-2")).await.len()
        ),
        (0, 1)
    );
}
