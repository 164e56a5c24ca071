//! Record of the answers to the callers, and its comparison with what is kept.

use std::collections::BTreeMap;

use petstore_proto::internal::v1::{GetUsageRequest, usage_service_client::UsageServiceClient};
use petstore_testkit::{
    Installation, Server, grpc,
    history::{BUSY_DEADLINE, Conditions, History, all_pets},
};

use super::cores::all_orders;

/// Record of the answers to the callers.
#[derive(Default)]
pub(super) struct Answers {
    /// Requests and calls that add pets.
    pub(super) pets: History,
    /// Pets that were acknowledged and that the other core did not have at that time, and orders that the
    /// first core did not have.
    pub(super) invisible: Vec<String>,
    /// Identifier and last status of each order, by quantity, which no two orders share.
    pub(super) orders: BTreeMap<i32, (i64, i32)>,
    /// Number of reports of usage.
    pub(super) reports: i64,
    /// Accounts, with `true` if they were moved to another plan.
    pub(super) accounts: BTreeMap<String, bool>,
    /// Numbers of successes and refusals of each kind of call.
    pub(super) calls: BTreeMap<&'static str, (u64, u64)>,
}

impl Answers {
    /// Returns the numbers of successes and refusals of each kind of call.
    pub(super) fn counts(&self) -> String {
        let calls = self.calls.iter();
        let calls: Vec<_> =
            calls.map(|(kind, (done, refused))| format!("{kind}: {done} ({refused})")).collect();
        format!("calls that succeeded (and were refused): {}", calls.join(", "))
    }

    /// Fails unless this core has everything that was acknowledged, and nothing twice.
    pub(super) async fn assert_kept(&self, core: &Server, counted: i64) {
        let stored = Some(all_pets(core.address("gRPC")).await);
        let conditions = Conditions { stored, deadline: Some(BUSY_DEADLINE), ..Conditions::default() };
        let report = conditions.check(&self.pets.records());
        println!("pets: {report}; {} not visible at once", self.invisible.len());
        let (mut orders, mut twice) = (BTreeMap::new(), Vec::new());
        for order in all_orders(core).await {
            twice.extend(orders.insert(order.quantity, (order.id, order.status)));
        }
        let is_kept = |quantity: &i32, (id, status): &(i64, i32)| {
            orders.get(quantity).is_some_and(|(kept_id, kept_status)| kept_id == id && kept_status >= status)
        };
        let lost: Vec<_> = self.orders.iter().filter(|(quantity, order)| !is_kept(quantity, order)).collect();
        println!(
            "orders: {} acknowledged, {} lost, {} duplicated",
            self.orders.len(),
            lost.len(),
            twice.len()
        );
        let succeeded = reported_usage(core, counted).await;
        println!("reports of usage: {} acknowledged, {succeeded} counted", self.reports);

        report.assert_clean();
        assert!(self.invisible.is_empty(), "not visible at once: {:?}", self.invisible);
        assert!(lost.is_empty() && twice.is_empty(), "orders: {lost:?} lost, {twice:?} placed twice");
        assert_eq!(succeeded, self.reports, "every report counts once");
    }

    /// Fails unless the operator's command lists every account that was acknowledged.
    pub(super) async fn assert_accounts_kept(&self, operator: &Installation) {
        let accounts = operator.json(&["account", "list"]).await;
        for (name, is_changed) in &self.accounts {
            let kept =
                accounts["accounts"].as_array().unwrap().iter().find(|account| account["name"] == **name);
            let kept = kept.unwrap_or_else(|| panic!("account {name} was acknowledged, and is lost"));
            assert!(!is_changed || kept["plan"] == "pro", "{kept}");
        }
    }
}

async fn reported_usage(core: &Server, account_id: i64) -> i64 {
    let mut usage = UsageServiceClient::new(grpc::channel(core.address("gRPC")).await);
    let request = GetUsageRequest { account_id, ..GetUsageRequest::default() };
    let days = usage.get_usage(request).await.unwrap().into_inner().days;
    days.iter().map(|day| day.succeeded).sum()
}
