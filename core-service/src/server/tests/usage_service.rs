use petstore_proto::internal::v1::{
    self as internal, GetUsageRequest, ReportUsageRequest, UsageDay, UsageRow,
    usage_service_client::UsageServiceClient,
};

use super::*;

fn report(requests: Vec<UsageRow>) -> ReportUsageRequest {
    ReportUsageRequest { reporter: "gateway".into(), number: 1, requests, ..Default::default() }
}

fn row() -> UsageRow {
    UsageRow {
        account_id: 7,
        key_id: KEY.to_owned(),
        minute: 20_833 * 1_440 + 5,
        succeeded: 1,
        client_errors: 2,
        refused: 3,
        server_errors: 4,
        get_pet: 5,
    }
}

const KEY: &str = "018f0000-0000-7000-8000-000000000000";

#[tokio::test]
async fn days_are_the_sums_of_the_reported_minutes() {
    let shop = Shop::open().await;
    let mut usage = UsageServiceClient::new(BoxCloneSyncService::new(in_memory(services(&shop.core))));
    let later = UsageRow { minute: row().minute + 1, ..row() };
    let without_key = UsageRow { key_id: String::new(), ..row() };
    usage.report_usage(report(vec![row(), later, without_key])).await.unwrap();
    let question = GetUsageRequest { account_id: 7, since_day: 20_833, reporter: "gateway".into() };
    let answer = usage.get_usage(question.clone()).await.unwrap().into_inner();
    let day =
        UsageDay { day: 20_833, succeeded: 3, client_errors: 6, refused: 9, server_errors: 12, get_pet: 15 };
    assert_eq!((answer.days, answer.last_report), (vec![day], 1));
    let later = GetUsageRequest { since_day: 20_834, ..question };
    assert_eq!(usage.get_usage(later).await.unwrap().into_inner().days, []);
}

#[tokio::test]
async fn a_report_of_usage_is_bounded_and_validated() {
    let shop = Shop::open().await;
    let mut usage = UsageServiceClient::new(BoxCloneSyncService::new(in_memory(services(&shop.core))));
    let negative = UsageRow { refused: -1, ..row() };
    let no_key = UsageRow { key_id: "a key".into(), ..row() };
    let count = internal::RefusalCount { minute: 1, cause: 1, requests: 1 };
    for (wrong, message) in [
        (report(vec![row(); 1_001]), "requests must be at most 1000"),
        (report(vec![negative]), "requests must not have negative numbers"),
        (report(vec![no_key]), "requests.key_id must be the UUID of a key"),
        (report(vec![row(), row()]), "requests must have each account, key and minute once"),
        (
            ReportUsageRequest { refusal_counts: vec![count; 2], ..report(vec![]) },
            "refusal_counts must have each minute and cause once",
        ),
        (ReportUsageRequest { number: 0, ..report(vec![]) }, "number must be positive"),
        (
            ReportUsageRequest { reporter: "a b".into(), ..report(vec![]) },
            "reporter must be 1 to 64 visible ASCII characters",
        ),
    ] {
        let error = usage.report_usage(wrong).await.unwrap_err();
        assert_eq!(verdict(&error), refused(Code::InvalidArgument, "INVALID_PARAMETER", message));
    }
}
