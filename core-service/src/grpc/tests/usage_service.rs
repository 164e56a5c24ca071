use petstore_proto::internal::v1::{
    GetUsageRequest, ReportUsageRequest, UsageDay, UsageRow, usage_service_client::UsageServiceClient,
};

use super::*;

fn report(rows: Vec<UsageRow>) -> ReportUsageRequest {
    ReportUsageRequest { reporter: "gateway".into(), number: 1, rows, ..Default::default() }
}

fn row() -> UsageRow {
    let day =
        UsageDay { day: 20_833, succeeded: 1, client_errors: 2, refused: 3, server_errors: 4, get_pet: 5 };
    UsageRow { account_id: 7, day: Some(day) }
}

#[tokio::test]
async fn what_was_reported_can_be_read() {
    let shop = Shop::open().await;
    let mut usage = UsageServiceClient::new(BoxCloneSyncService::new(in_memory(&shop.core)));
    usage.report_usage(report(vec![row()])).await.unwrap();
    let question = GetUsageRequest { account_id: 7, since_day: 20_833, reporter: "gateway".into() };
    let answer = usage.get_usage(question.clone()).await.unwrap().into_inner();
    assert_eq!((answer.days, answer.last_report), (vec![row().day.unwrap()], 1));
    let later = GetUsageRequest { since_day: 20_834, ..question };
    assert_eq!(usage.get_usage(later).await.unwrap().into_inner().days, []);
}

#[tokio::test]
async fn a_report_of_usage_is_bounded_and_judged() {
    let shop = Shop::open().await;
    let mut usage = UsageServiceClient::new(BoxCloneSyncService::new(in_memory(&shop.core)));
    let negative = UsageRow { day: Some(UsageDay { refused: -1, ..row().day.unwrap() }), ..row() };
    for (wrong, message) in [
        (report(vec![row(); 1_001]), "rows must be at most 1000"),
        (report(vec![negative]), "rows must not have negative numbers"),
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
