//! Why requests were refused.

use petstore_proto::{
    admin::v1::{RefusalCause, RefusalCause as C, explain_refusal_request::Subject},
    internal::v1::{Refusal, ReportUsageRequest, UsageDay, UsageRow},
};

use super::*;

#[tokio::test]
async fn a_refusal_is_explained_by_what_is_in_force_first() {
    let shop = Shop::open().await;
    let mut admin = local(&shop);
    let account = admin.create_account(new_account("acme")).await.unwrap().into_inner().account.unwrap();
    let key = async |admin: &mut Admin| {
        admin.create_key(new_key("acme")).await.unwrap().into_inner().key.unwrap().id
    };
    let (used, revoked) = (key(&mut admin).await, key(&mut admin).await);
    let explain = async |subject: Subject| {
        let request = pb::ExplainRefusalRequest { subject: Some(subject) };
        let answer = local(&shop).explain_refusal(request).await.unwrap().into_inner();
        let told = answer.explanations.into_iter();
        told.map(|it| (it.code, it.in_force, it.sentence)).collect::<Vec<_>>()
    };
    let of_account = || explain(Subject::Account("acme".into()));
    assert_eq!(of_account().await, []);

    let mut usage = reports(&shop);
    let mut report = async |number, succeeded| {
        let day = UsageDay { day: 1_800_000_000 / 86_400, succeeded, refused: 4, ..Default::default() };
        let rows = vec![UsageRow { account_id: account.id, day: Some(day) }];
        usage
            .report_usage(ReportUsageRequest {
                reporter: "gateway".into(),
                number,
                rows,
                ..Default::default()
            })
            .await
            .unwrap();
    };
    report(1, 60).await;
    let minute = "4 requests of account acme were refused in the UTC day 2027-01-15, because they came \
                  faster than the 60 a minute that its plan free allows.";
    assert_eq!(of_account().await, [("RATE_LIMITED".to_owned(), false, minute.to_owned())]);
    report(2, 940).await;
    let day = "Account acme has used all 1000 requests that its plan free allows in the UTC day 2027-01-15; \
               more are refused until 2027-01-16T00:00:00Z.";
    assert_eq!(of_account().await, [("QUOTA_EXCEEDED".to_owned(), true, day.to_owned())]);

    shop.hand.advance(Duration::from_mins(1));
    admin.create_ban(ban(&used)).await.unwrap();
    admin.revoke_key(pb::RevokeKeyRequest { key_id: revoked.clone() }).await.unwrap();
    shop.hand.advance(Duration::from_mins(1));
    admin.suspend_account(suspend("acme")).await.unwrap();
    let codes =
        |told: Vec<(String, bool, String)>| told.into_iter().map(|(code, ..)| code).collect::<Vec<_>>();
    let told = of_account().await;
    assert_eq!(told[0].2, "Account acme is suspended since 2027-01-15T08:02:00Z: open invoice.");
    assert_eq!(codes(told)[1..].iter().filter(|code| *code == "API_KEY_BANNED").count(), 1);
    let told = codes(explain(Subject::KeyId(used)).await);
    assert_eq!(told, ["ACCOUNT_SUSPENDED", "API_KEY_BANNED", "QUOTA_EXCEEDED"]);
    let told = codes(explain(Subject::KeyId(revoked.clone())).await);
    assert_eq!(told, ["ACCOUNT_SUSPENDED", "API_KEY_REVOKED", "QUOTA_EXCEEDED"]);
    // Keys that ended long ago are explained when somebody asks about them.
    shop.hand.advance(Duration::from_hours(48));
    assert_eq!(codes(of_account().await), ["ACCOUNT_SUSPENDED"]);
    assert_eq!(codes(explain(Subject::KeyId(revoked)).await), ["ACCOUNT_SUSPENDED", "API_KEY_REVOKED"]);
}

/// Two seconds after the test began, in a window that did.
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

async fn told(shop: &Shop, subject: Subject) -> Vec<pb::RefusalExplanation> {
    let request = pb::ExplainRefusalRequest { subject: Some(subject) };
    local(shop).explain_refusal(request).await.unwrap().into_inner().explanations
}

fn request(id: &str) -> Subject {
    Subject::RequestId(id.to_owned())
}

/// The account `acme` on the free plan and one key of it.
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
    let explanation = told(&shop, request("order-66")).await.remove(0);
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
        refused_requests: 4,
        last_request_id: "order-66".to_owned(),
        last_refusal_time: window(2),
        sentence: "Request order-66 was refused at 2027-01-15T08:00:02Z, because account acme had used up \
                   the 60 requests a minute that its plan free allows, from 2027-01-15T08:00:00Z until \
                   2027-01-15T08:01:00Z."
            .to_owned(),
        remedy: "Raise the account's plan, which acts at once, or have its users spread their requests and \
                 wait for Retry-After after a 429."
            .to_owned(),
    };
    assert_eq!(explanation, expected);
    assert_eq!(told(&shop, request("order-67")).await, []);

    // A new plan acts in the running window.
    let pro = pb::Account { plan: pb::Plan::Pro.into(), ..Default::default() };
    local(&shop).update_account(update("acme", pro, &["plan"])).await.unwrap();
    let explanation = told(&shop, request("order-66")).await.remove(0);
    assert!(
        !explanation.in_force && explanation.sentence.contains("a minute that it was allowed then, from")
    );
    shop.hand.advance(Duration::from_secs(30));
    assert!(!told(&shop, request("order-66")).await[0].in_force, "the window is over");
}

#[tokio::test]
async fn every_cause_has_a_sentence_of_its_own() {
    let shop = Shop::open().await;
    let (account_id, key_id) = acme(&shop).await;
    let causes = [
        (
            C::DayLimit,
            "because account acme had used up the 60 requests a day that it was allowed then, in the UTC \
                       day 2027-01-15.",
        ),
        (
            C::LimiterBan,
            &format!(
                "because key {key_id} was banned for sending on after 429, from \
                       2027-01-15T08:00:00Z until 2027-01-15T08:01:00Z."
            ),
        ),
        (
            C::OperatorBan,
            &format!(
                "because an operator had banned key {key_id}, from 2027-01-15T08:00:00Z until \
                       2027-01-15T08:01:00Z."
            ),
        ),
        (C::AccountSuspended, "because account acme was suspended."),
        (C::KeyRevoked, &format!("because key {key_id} was revoked.")),
        (C::KeyExpired, &format!("because key {key_id} expired.")),
        (C::InvalidKey, "because it carried a key that the service does not know."),
        (C::MissingKey, "because it carried no key."),
        (
            C::AddressLimit,
            "because its address had used up the 60 requests that it may make without a valid key, from \
                       2027-01-15T08:00:00Z until 2027-01-15T08:01:00Z.",
        ),
        (
            C::UsageLimit,
            "because account acme had used up the 60 questions a minute about its usage, from \
                       2027-01-15T08:00:00Z until 2027-01-15T08:01:00Z.",
        ),
    ];
    for (number, (cause, why)) in causes.into_iter().enumerate() {
        let id = format!("request-{number}");
        let has_key = !matches!(cause, C::InvalidKey | C::MissingKey | C::AddressLimit);
        let (account_id, key_id) = if has_key { (account_id, key_id.clone()) } else { (0, String::new()) };
        report(&shop, vec![Refusal { account_id, key_id, limit: 60, ..refusal(&id, cause) }]).await;
        let explanation = told(&shop, request(&id)).await.remove(0);
        let sentence = format!("Request {id} was refused at 2027-01-15T08:00:02Z, {why}");
        assert_eq!((explanation.cause(), explanation.sentence), (cause, sentence));
        assert!(explanation.remedy.ends_with('.'), "{cause:?}");
        assert_eq!(explanation.account, if has_key { "acme" } else { "" });
    }
}

#[tokio::test]
async fn refusals_of_an_account_are_told_together_with_what_is_in_force() {
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
    let banned = told(&shop, Subject::KeyId(key_id.clone())).await.remove(0);
    let at = |time: prost_types::Timestamp| Some(time.seconds * 1_000);
    let by_ban = mine(Refusal {
        since_ms: at(banned.start_time.unwrap()),
        until_ms: at(banned.end_time.unwrap()),
        refused_at_ms: at(banned.start_time.unwrap()).unwrap() + 1,
        repeats: 11,
        ..refusal("request-3", RefusalCause::OperatorBan)
    });
    report(&shop, vec![by_ban]).await;
    for subject in [Subject::Account("acme".into()), Subject::KeyId(key_id.clone())] {
        let told = told(&shop, subject).await;
        let told: Vec<_> = told.iter().map(|it| (it.cause(), it.in_force, it.refused_requests)).collect();
        assert_eq!(told, [(RefusalCause::OperatorBan, true, 12), (RefusalCause::MinuteLimit, false, 9)]);
    }
    let told_of_account = told(&shop, Subject::Account("acme".into())).await;
    assert_eq!(told_of_account[0].last_request_id, "request-3");
    let sentence = "9 requests of account acme were refused from 2027-01-15T08:00:02Z to \
                    2027-01-15T08:01:32Z, because account acme had used up the 60 requests a minute that \
                    its plan free allows, the last time from 2027-01-15T08:01:32Z until \
                    2027-01-15T08:02:30Z.";
    assert_eq!(told_of_account[1].sentence, sentence);

    local(&shop).lift_ban(pb::LiftBanRequest { key_id: key_id.clone() }).await.unwrap();
    let told_later = told(&shop, Subject::KeyId(key_id)).await;
    assert!(told_later.iter().all(|it| !it.in_force), "{told_later:?}");
    shop.hand.advance(Duration::from_hours(24) + Duration::from_secs(1));
    assert_eq!(told(&shop, Subject::Account("acme".into())).await, [], "of the last 24 hours");
}

#[tokio::test]
async fn what_a_gateway_reports_of_refusals_is_bounded_and_judged() {
    let shop = Shop::open().await;
    let right = refusal("request-1", RefusalCause::InvalidKey);
    let one = |refusal: Refusal| vec![refusal];
    for (refusals, message) in [
        (vec![right.clone(); 501], "refusals must be at most 500"),
        (
            one(Refusal { request_id: "a b".into(), ..right.clone() }),
            "request_id must be 8 to 64 ASCII letters, digits, '.', '_' and '-'",
        ),
        (one(Refusal { repeats: -1, ..right.clone() }), "refusals.repeats must not be negative"),
        (one(Refusal { account_id: -1, ..right.clone() }), "refusals.account_id must not be negative"),
        (one(Refusal { key_id: "x".into(), ..right.clone() }), "refusals.key_id must be the UUID of a key"),
        (
            one(Refusal { until_ms: Some(-1), ..right.clone() }),
            "refusals.until_ms must be a moment from 1970 to 9999",
        ),
    ] {
        let report = ReportUsageRequest { reporter: "run".into(), number: 1, refusals, ..Default::default() };
        let refusal = reports(&shop).report_usage(report).await.unwrap_err();
        assert_eq!(verdict(&refusal), refused(Code::InvalidArgument, "INVALID_PARAMETER", message));
    }
    // Of a newer gateway: left out, and the rest is kept.
    let newer = Refusal { cause: 99, ..right.clone() };
    report(&shop, vec![newer, Refusal { request_id: "request-2".into(), ..right }]).await;
    assert_eq!(
        (told(&shop, request("request-1")).await.len(), told(&shop, request("request-2")).await.len()),
        (0, 1)
    );
}
