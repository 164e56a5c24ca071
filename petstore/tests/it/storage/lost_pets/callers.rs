//! Callers that make every kind of call, and record the answers.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    time::Duration,
};

use petstore_clock::Clock;
use petstore_proto::internal::v1::{
    GetUsageRequest, KeyUse, ReportUsageRequest, ReportUseRequest, ResolveKeysRequest, UsageRow,
    key_service_client::KeyServiceClient, usage_service_client::UsageServiceClient,
};
use petstore_testkit::{
    Client, Installation,
    grpc::{self, Channel, Code, Request, pb},
    history::History,
};
use tokio::task::JoinSet;

use super::{answers::Answers, cores::TwoCores};
use pets::create_request;

mod pets;

/// Pause after a refusal, so that it is not repeated a thousand times a second.
const RETRY_INTERVAL: Duration = Duration::from_millis(20);
/// Maximum number of retries. It takes longer than any outage of the tests, so that every retried call
/// succeeds.
const REPEATED: u32 = 1_500;
/// Deadline longer than any call may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(20);

/// Kinds of calls that callers make to the core and the gateway, except those of the impatient, which may
/// never succeed on a busy machine.
const KINDS: [&str; 16] = [
    "create with a key",
    "create without a key",
    "create over gRPC",
    "create a batch",
    "import",
    "list pets",
    "list pets of a status",
    "get a pet",
    "place an order",
    "advance an order",
    "get an order",
    "list orders",
    "report usage",
    "get usage",
    "report use",
    "resolve a key",
];
/// Kinds of calls that the operator's command makes to the database.
const OPERATORS_KINDS: [&str; 3] = ["create an account", "change a plan", "create a key"];

/// Callers, until they are stopped.
pub(super) struct Callers {
    caller: Caller,
    changes_accounts: bool,
    tasks: JoinSet<()>,
}

/// State that all callers share.
#[derive(Clone)]
struct Caller {
    is_over: Arc<AtomicBool>,
    numbers: Arc<AtomicI64>,
    answers: Arc<Mutex<Answers>>,
    history: History,
    rest: Client,
    first: Channel,
    second: Channel,
}

impl Callers {
    /// Begins to make calls to the first core. Accounts are changed by the operator's command, in that
    /// installation.
    pub(super) async fn start(cores: &TwoCores, operator: Option<Arc<Installation>>, counted: i64) -> Self {
        let caller = Caller {
            is_over: Arc::default(),
            numbers: Arc::default(),
            answers: Arc::default(),
            history: History::default(),
            rest: cores.client.clone(),
            first: grpc::channel(cores.first.address("gRPC")).await,
            second: grpc::channel(cores.second.address("gRPC")).await,
        };
        let mut tasks = JoinSet::new();
        for _ in 0..2 {
            tasks.spawn(caller.clone().create_with_key());
            tasks.spawn(caller.clone().create_without_key());
            tasks.spawn(caller.clone().create_over_grpc());
        }
        tasks.spawn(caller.clone().create_impatiently());
        tasks.spawn(caller.clone().create_batches());
        tasks.spawn(caller.clone().import());
        tasks.spawn(caller.clone().list_and_get());
        tasks.spawn(caller.clone().order());
        tasks.spawn(caller.clone().report_usage(counted));
        tasks.spawn(caller.clone().report_use_and_resolve());
        let changes_accounts = operator.is_some();
        if let Some(operator) = operator {
            tasks.spawn(caller.clone().change_accounts(operator));
        }
        Self { caller, changes_accounts, tasks }
    }

    /// Returns the numbers of successes and refusals of each kind of call.
    pub(super) fn calls(&self) -> BTreeMap<&'static str, (u64, u64)> {
        self.caller.answers().calls.clone()
    }

    /// Returns the kinds of calls that are made.
    pub(super) fn kinds(&self) -> Vec<&'static str> {
        if self.changes_accounts { [&KINDS[..], &OPERATORS_KINDS].concat() } else { KINDS.to_vec() }
    }

    /// Returns the number of acknowledged pets.
    pub(super) fn acknowledged(&self) -> usize {
        self.caller.history.acknowledged()
    }

    /// Lets each caller finish its current call.
    pub(super) async fn stop(mut self) -> Answers {
        self.caller.is_over.store(true, Ordering::Relaxed);
        while let Some(ended) = self.tasks.join_next().await {
            ended.unwrap();
        }
        Answers { pets: self.caller.history.clone(), ..std::mem::take(&mut *self.caller.answers()) }
    }
}

impl Caller {
    fn goes_on(&self) -> bool {
        !self.is_over.load(Ordering::Relaxed)
    }

    fn answers(&self) -> MutexGuard<'_, Answers> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_number(&self) -> i64 {
        self.numbers.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Counts a call, and pauses if it was refused. Returns `true` if it succeeded.
    async fn count(&self, kind: &'static str, succeeded: bool) -> bool {
        {
            let mut answers = self.answers();
            let (successes, refusals) = answers.calls.entry(kind).or_default();
            *(if succeeded { successes } else { refusals }) += 1;
        }
        if !succeeded {
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
        succeeded
    }

    /// Places an order, advances it, and reads it.
    async fn order(self) {
        let mut orders = pb::store_service_client::StoreServiceClient::new(self.first.clone());
        let mut pets = pb::pet_store_client::PetStoreClient::new(self.first.clone());
        let pet_id = loop {
            let number = self.next_number();
            match pets
                .create_pet(within(CALL_TIMEOUT, create_request(&format!("ordered {number}"), number)))
                .await
            {
                Ok(created) => break created.into_inner().pet.unwrap().id,
                Err(_) => tokio::time::sleep(RETRY_INTERVAL).await,
            }
        };
        for quantity in 1.. {
            if !self.goes_on() {
                return;
            }
            let order = pb::NewOrder { pet_id, quantity, ship_date: None };
            let placed =
                orders.place_order(within(CALL_TIMEOUT, pb::PlaceOrderRequest { order: Some(order) })).await;
            if !self.count("place an order", placed.is_ok()).await {
                continue;
            }
            let order_id = placed.unwrap().into_inner().order.unwrap().id;
            self.answers().orders.insert(quantity, (order_id, pb::OrderStatus::Placed.into()));
            let status = pb::OrderStatus::Approved.into();
            let step = pb::AdvanceOrderRequest { order_id, status };
            let advanced = orders.advance_order(within(CALL_TIMEOUT, step)).await;
            if self.count("advance an order", advanced.is_ok()).await {
                self.answers().orders.insert(quantity, (order_id, status));
            }
            let got = orders.get_order(within(CALL_TIMEOUT, pb::GetOrderRequest { order_id })).await;
            if got.as_ref().is_err_and(|refusal| refusal.code() == Code::NotFound) {
                self.answers().invisible.push(format!("order {order_id}"));
            }
            self.count("get an order", got.is_ok()).await;
            let page = orders.list_orders(within(CALL_TIMEOUT, pb::ListOrdersRequest::default())).await;
            self.count("list orders", page.is_ok()).await;
            tokio::time::sleep(RETRY_INTERVAL / 4).await;
        }
    }

    /// Sends each report again until it is answered, as a gateway does.
    async fn report_usage(self, counted: i64) {
        let mut usage = UsageServiceClient::new(self.first.clone());
        let minute = i64::try_from(Clock::system().now().as_secs() / 60).unwrap();
        while self.goes_on() {
            let number = self.answers().reports + 1;
            let requests =
                vec![UsageRow { account_id: counted, minute, succeeded: 1, ..UsageRow::default() }];
            let report =
                ReportUsageRequest { reporter: "gateway".to_owned(), number, requests, ..Default::default() };
            let mut attempts = 0..REPEATED;
            loop {
                assert!(attempts.next().is_some(), "report {number} is never counted");
                let answer = usage.report_usage(within(CALL_TIMEOUT, report.clone())).await;
                if self.count("report usage", answer.is_ok()).await {
                    break;
                }
            }
            self.answers().reports = number;
            let request = GetUsageRequest { account_id: counted, ..GetUsageRequest::default() };
            let got = usage.get_usage(within(CALL_TIMEOUT, request)).await;
            self.count("get usage", got.is_ok()).await;
            tokio::time::sleep(RETRY_INTERVAL / 4).await;
        }
    }

    async fn report_use_and_resolve(self) {
        let mut keys = KeyServiceClient::new(self.first.clone());
        while self.goes_on() {
            let last_used_at_ms = i64::try_from(Clock::system().now().0).unwrap();
            let uses = vec![KeyUse { key_id: uuid::Uuid::nil().to_string(), last_used_at_ms }];
            let reported = keys.report_use(within(CALL_TIMEOUT, ReportUseRequest { uses })).await;
            self.count("report use", reported.is_ok()).await;
            let digests = vec![vec![7; 32]]; // of no key
            let resolved = keys
                .resolve_keys(within(CALL_TIMEOUT, ResolveKeysRequest { digests, ..Default::default() }))
                .await;
            self.count("resolve a key", resolved.is_ok()).await;
            tokio::time::sleep(RETRY_INTERVAL / 4).await;
        }
    }

    async fn change_accounts(self, operator: Arc<Installation>) {
        for number in 0.. {
            if !self.goes_on() {
                return;
            }
            let name = format!("account-{number}");
            let created = operator.run(&["account", "create", &name, "--plan", "free"]).await;
            if !self.count("create an account", created.code == Some(0)).await {
                continue;
            }
            self.answers().accounts.insert(name.clone(), false);
            let changed = operator.run(&["account", "set-plan", &name, "--plan", "pro"]).await;
            if self.count("change a plan", changed.code == Some(0)).await {
                self.answers().accounts.insert(name.clone(), true);
            }
            let key = operator.run(&["key", "create", "--account", &name]).await;
            self.count("create a key", key.code == Some(0)).await;
        }
    }
}

/// Returns a request with its deadline.
fn within<T>(deadline: Duration, message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(deadline);
    request
}
