//! Invalid messages that no gateway sends, sent to every internal method. On every engine they are refused or
//! accepted, and never lead to a fault of the service, which gateways would retry without end.

use petstore_proto::internal::v1::{
    Ban, GetUsageRequest, KeyUse, ListChangesRequest, ReportBanRequest, ReportUsageRequest, ReportUseRequest,
    ResolveKeysRequest, UsageDay, UsageRow, usage_service_client::UsageServiceClient,
};

use super::*;

const KEY: &str = "01890a5d-ac96-774b-bcce-b302099a8057";
const NUMBERS: [i64; 6] = [i64::MIN, -1, 0, 1, i64::MAX - 1, i64::MAX];
/// Last millisecond of the year 9999.
const LAST_MS: i64 = 253_402_300_799_999;
const LAST_DAY: i64 = 2_932_896;
const LAST_MINUTE: i64 = (LAST_DAY + 1) * 1_440 - 1;
/// Maximum of any count of a day.
const MOST: i64 = 1_000_000_000_000_000;

/// Returns texts that are not valid names.
fn texts() -> [String; 6] {
    ["", "\0", "a\0b", "é", "a b", &"x".repeat(100_000)].map(str::to_owned)
}

impl Shop {
    fn usage(&self) -> UsageServiceClient<Transport> {
        UsageServiceClient::new(BoxCloneSyncService::new(in_memory(services(&self.core))))
    }
}

fn assert_refused<T: std::fmt::Debug>(answer: Result<T, Status>, what: &str) {
    let error = answer.expect_err(what);
    assert_eq!(
        (error.code(), reason(&error).as_str()),
        (Code::InvalidArgument, "INVALID_PARAMETER"),
        "{what}: {error:?}"
    );
}

#[tokio::test]
async fn calls_about_keys_and_changes_are_answered_or_refused() {
    let shop = Shop::open().await;
    for len in [0, 1, 31, 33, 100_000] {
        let digests = vec![vec![0; 32], vec![0; len]];
        assert_refused(
            shop.keys().resolve_keys(ResolveKeysRequest { digests, ..Default::default() }).await,
            "a digest",
        );
    }
    for digests in [vec![], vec![vec![0; 32]; 1_001]] {
        assert_refused(
            shop.keys().resolve_keys(ResolveKeysRequest { digests, ..Default::default() }).await,
            "digests",
        );
    }
    let same = ResolveKeysRequest { digests: vec![vec![0; 32]; 1_000], ..Default::default() };
    assert_eq!(shop.keys().resolve_keys(same).await.unwrap().into_inner().keys, []);
    for after_revision in NUMBERS {
        shop.keys().list_changes(ListChangesRequest { after_revision }).await.expect("the changes");
    }
}

#[tokio::test]
async fn reports_of_use() {
    let shop = Shop::open().await;
    let report = async |uses: &[(&str, i64)]| {
        let uses = uses.iter().map(|(key_id, at)| KeyUse { key_id: (*key_id).into(), last_used_at_ms: *at });
        shop.keys().report_use(ReportUseRequest { uses: uses.collect() }).await
    };
    report(&[]).await.unwrap();
    report(&[(KEY, 0)]).await.unwrap();
    report(&[(KEY, LAST_MS)]).await.unwrap();
    for text in texts() {
        assert_refused(report(&[(KEY, 1), (&text, 1)]).await, &text);
    }
    for number in [i64::MIN, -1, LAST_MS + 1, i64::MAX] {
        assert_refused(report(&[(KEY, number)]).await, "a moment");
    }
    assert_refused(report(&[(KEY, 1), (KEY, 2)]).await, "a key twice");
    assert_refused(report(&[(KEY, 1), (&KEY.to_uppercase(), 1)]).await, "a key twice, written in two ways");
}

#[tokio::test]
async fn reports_of_bans() {
    let shop = Shop::open().await;
    let report = async |key_id: &str, ban| {
        shop.keys().report_ban(ReportBanRequest { key_id: key_id.into(), ban }).await
    };
    let ban = |imposed_at_ms, ends_at_ms| Some(Ban { imposed_at_ms, ends_at_ms, ..Ban::default() });
    let answer = report(KEY, ban(1, LAST_MS)).await.unwrap().into_inner();
    assert_eq!(answer.last_ban, None, "there is no such key");
    for text in texts() {
        assert_refused(report(&text, ban(1, 2)).await, &text);
    }
    assert_refused(report(KEY, None).await, "no ban");
    for (from, until) in [(2, 2), (3, 2), (-1, 2), (i64::MIN, i64::MAX), (0, i64::MAX), (0, LAST_MS + 1)] {
        assert_refused(report(KEY, ban(from, until)).await, "a ban");
    }
}

#[tokio::test]
async fn reports_of_usage() {
    let shop = Shop::open().await;
    let row =
        |account_id, minute, succeeded| UsageRow { account_id, minute, succeeded, ..UsageRow::default() };
    let report = async |reporter: &str, number, requests: Vec<UsageRow>| {
        shop.usage()
            .report_usage(ReportUsageRequest {
                reporter: reporter.into(),
                number,
                requests,
                ..Default::default()
            })
            .await
    };
    for text in texts() {
        assert_refused(report(&text, 1, vec![row(1, 1, 1)]).await, &text);
    }
    for number in [i64::MIN, -1, 0] {
        assert_refused(report("run", number, vec![]).await, "a number");
    }
    for wrong in [i64::MIN, -1, MOST + 1, i64::MAX] {
        assert_refused(report("run", 1, vec![row(1, 1, wrong)]).await, "a count");
    }
    for wrong in [i64::MIN, -1, LAST_MINUTE + 1, i64::MAX] {
        assert_refused(report("run", 1, vec![row(1, wrong, 1)]).await, "a minute");
    }
    assert_refused(report("run", 1, vec![row(1, 1, 1), row(1, 1, 2)]).await, "a minute twice");
    let accounts = NUMBERS.map(|account| row(account, LAST_MINUTE, 1));
    report("run", 1, accounts.to_vec()).await.expect("accounts are not looked up");
    report("run", i64::MAX, vec![]).await.unwrap();
}

#[tokio::test]
async fn counts_saturate() {
    let shop = Shop::open().await;
    let row = UsageRow {
        account_id: 7,
        key_id: String::new(),
        minute: LAST_MINUTE,
        succeeded: MOST,
        client_errors: MOST,
        refused: MOST - 1,
        server_errors: 1,
        get_pet: MOST,
    };
    for number in 1..=3 {
        let requests = vec![row.clone(), UsageRow { minute: LAST_MINUTE - 1, ..row.clone() }];
        let report = ReportUsageRequest { reporter: "run".into(), number, requests, ..Default::default() };
        shop.usage().report_usage(report).await.unwrap();
    }
    let question = GetUsageRequest { account_id: 7, since_day: 0, reporter: "run".into() };
    let answer = shop.usage().get_usage(question).await.unwrap().into_inner();
    let expected = UsageDay {
        day: LAST_DAY,
        succeeded: MOST,
        client_errors: MOST,
        refused: MOST,
        server_errors: 6,
        get_pet: MOST,
    };
    assert_eq!(answer.days, [expected]);
}

#[tokio::test]
async fn questions_about_usage() {
    let shop = Shop::open().await;
    let ask = async |account_id, since_day, reporter: &str| {
        shop.usage().get_usage(GetUsageRequest { account_id, since_day, reporter: reporter.into() }).await
    };
    for number in NUMBERS {
        ask(number, number, "").await.unwrap();
    }
    for text in texts().iter().filter(|text| !text.is_empty()) {
        assert_refused(ask(1, 1, text).await, text);
    }
}
