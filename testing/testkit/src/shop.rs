//! The whole service in this process.

mod counters;

use std::{
    collections::HashMap,
    net::SocketAddr,
    path::Path,
    sync::{
        Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use self::counters::OwnServers;
pub use self::counters::SharedCounters;
use petstore::{
    Addresses, Process,
    servers::{GatewaySettings, ServeSettings, start_gateway, start_service},
};
use petstore_admin_service::{
    Administration,
    domain::{Actor, OperatorName, Role},
    store::AdminStore,
};
use petstore_caller::api_key::Environment;
use petstore_clock::{Clock, ManualClock, UnixMillis};
use petstore_core::{
    Core,
    accounts::{AccountName, Plan, Quota},
    server::{InMemory, in_memory},
    store::Store,
};
use petstore_proto::admin::v1::{
    self as pb, admin_service_client::AdminServiceClient, create_ban_request::End,
    create_key_request::Expiration,
};
use petstore_settings::{GrpcAddr, ListenAddr, from_flags};
use prost_types::FieldMask;
use tempfile::TempDir;

use crate::{Client, Engine, eventually, store_database::store_database};

/// Default time at which a test begins: the middle of a day, so that no window ends by accident.
const START: &str = "2026-11-20T10:00:00Z";
const DAY_SECS: u64 = 86_400;

/// Address with any free port.
const FREE: &str = "127.0.0.1:0";

/// Timeout within which a further gateway must reach the core.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(10);

/// Returns the address of a process's gRPC port.
pub fn grpc_addr(addresses: &Addresses) -> SocketAddr {
    match &addresses.grpc {
        Some(GrpcAddr::Tcp(ListenAddr::Ip(addr))) => *addr,
        other => panic!("{other:?} is no TCP port"),
    }
}

/// Service on its own store, listening on free ports of the loopback. Its clock only advances by
/// [`TestShop::advance`]. Requests are counted by the limiter that the variable `PETSTORE_TEST_LIMITER`
/// names, so that one suite tests every limiter. Everything ends when it is dropped.
pub struct TestShop {
    running: Process,
    /// Gateways beside the first, which runs in one process with the core.
    further_gateways: Vec<Process>,
    clock: Clock,
    hand: ManualClock,
    environment: Environment,
    database_url: String,
    accounts: AtomicU32,
    key_ids: Mutex<HashMap<String, String>>,
    _folder: TempDir,
    _servers: Option<OwnServers>,
}

impl TestShop {
    /// Opens the shop at 2026-11-20T10:00:00Z.
    pub async fn open() -> Self {
        Self::start(START, &[]).await
    }

    /// Opens the shop at this time (RFC 3339).
    pub async fn open_at(moment: &str) -> Self {
        Self::start(moment, &[]).await
    }

    /// Opens the shop with these flags of `petstore serve`.
    pub async fn open_with(flags: &[&str]) -> Self {
        Self::start(START, flags).await
    }

    /// Opens the shop with `gateways` gateways that share the counters, and these flags for each of them.
    pub async fn open_on(counters: &SharedCounters, gateways: u16, flags: &[&str]) -> Self {
        counters.wait_for_a_whole_test().await;
        let count = gateways.to_string();
        let flags = [["--gateways", &count].as_slice(), flags].concat();
        let mut shop = Self::start_on(START, &flags, Some(counters)).await;
        for _ in 1..gateways {
            shop.add_gateway(Some(counters), &flags).await;
        }
        shop
    }

    /// Opens the shop with `gateways` gateways on one core, each of which counts in its own process.
    pub async fn open_apart(gateways: u16) -> Self {
        let mut shop = Self::start_on(START, &[], None).await;
        for _ in 1..gateways {
            shop.add_gateway(None, &[]).await;
        }
        shop
    }

    /// Closes the shop, in order, and opens it again on the same store, with one gateway. Its clock
    /// continues.
    pub async fn reopen(self, counters: &SharedCounters) -> Self {
        for gateway in self.further_gateways {
            gateway.stop().await;
        }
        self.running.stop().await;
        let mut settings = settings(&self.database_url, &[]);
        counters.apply(&mut settings.limiter);
        let running = start_service(settings, self.clock.clone()).await.expect("the service starts");
        Self { running, further_gateways: Vec::new(), ..self }
    }

    async fn start(moment: &str, flags: &[&str]) -> Self {
        match counters::by_variable().await {
            None => Self::start_on(moment, flags, None).await,
            Some((servers, counters)) => {
                let shop = Self::start_on(moment, flags, Some(&counters)).await;
                Self { _servers: Some(servers), ..shop }
            }
        }
    }

    async fn start_on(moment: &str, flags: &[&str], counters: Option<&SharedCounters>) -> Self {
        let folder = TempDir::new().expect("a temporary folder");
        let (clock, hand) = Clock::manual(unix_millis(moment));
        let database = Box::pin(database_url(folder.path())).await;
        let mut settings = settings(&database, flags);
        if let Some(counters) = counters {
            counters.apply(&mut settings.limiter);
        }
        let environment = settings.process.environment;
        let running = start_service(settings, clock.clone()).await.expect("the service starts");
        Self {
            running,
            further_gateways: Vec::new(),
            clock,
            hand,
            environment,
            database_url: database,
            accounts: AtomicU32::new(0),
            key_ids: Mutex::default(),
            _folder: folder,
            _servers: None,
        }
    }

    async fn add_gateway(&mut self, counters: Option<&SharedCounters>, flags: &[&str]) {
        let core = format!("http://{}", self.grpc_addr());
        let flags =
            [["--core-url", &core, "--http-addr", FREE, "--admin-addr", FREE].as_slice(), flags].concat();
        let mut settings: GatewaySettings = from_flags(flags).unwrap_or_else(|error| panic!("{error}"));
        if let Some(counters) = counters {
            counters.apply(&mut settings.limiter);
        }
        let running = start_gateway(settings, self.clock.clone()).await.expect("the gateway starts");
        let admin = Client::new(running.addresses.admin);
        eventually(CHANGE_TIMEOUT, async || match admin.get("/readyz").await {
            ready if ready.status() == 200 => Ok(()),
            unready => Err(format!("{unready:?}")),
        })
        .await;
        self.further_gateways.push(running);
    }

    fn store(&self) -> &Store {
        self.running.store().expect("the core's store")
    }

    fn administrator(&self) -> AdminServiceClient<InMemory> {
        administrator(&self.running, self.clock.clone())
    }

    /// Returns the REST address of each gateway.
    pub fn gateways(&self) -> Vec<SocketAddr> {
        let further = self.further_gateways.iter().map(|gateway| gateway.addresses.http.expect("plain HTTP"));
        self.running.addresses.http.into_iter().chain(further).collect()
    }

    /// Returns a client of the admin port of each gateway.
    pub fn admins(&self) -> Vec<Client> {
        let further = self.further_gateways.iter().map(|gateway| Client::new(gateway.addresses.admin));
        [self.admin()].into_iter().chain(further).collect()
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        self.hand.advance(by);
    }

    /// Moves the clock back, as a clock that is corrected does.
    pub fn turn_back(&self, by: Duration) {
        self.hand.set(self.clock.now().minus(by));
    }

    /// Returns the time of the clock, in whole seconds.
    pub fn unix_secs(&self) -> u64 {
        self.clock.now().as_secs()
    }

    /// Returns the end of the UTC day, in Unix seconds.
    pub fn midnight(&self) -> u64 {
        (self.unix_secs() / DAY_SECS + 1) * DAY_SECS
    }

    /// Returns every metric that the shop can show, as a table.
    pub fn metrics_table(&self) -> String {
        self.running.metrics.table()
    }

    /// Returns the address of gRPC.
    pub fn grpc_addr(&self) -> SocketAddr {
        grpc_addr(&self.running.addresses)
    }

    /// Returns a REST client without a key.
    pub fn anonymous(&self) -> Client {
        Client::new(self.running.addresses.http.expect("plain HTTP"))
    }

    /// Returns a client of the admin port.
    pub fn admin(&self) -> Client {
        Client::new(self.running.addresses.admin)
    }

    /// Returns a REST client with a key of a new account on this plan.
    pub async fn client_on(&self, plan: Plan) -> Client {
        self.client_of(&Box::pin(self.account_on(plan)).await).await
    }

    /// Returns a REST client with a key of a new Enterprise account with these limits.
    pub async fn client_with(&self, per_minute: u64, per_day: u64) -> Client {
        self.client_on(Plan::Enterprise(Quota { per_minute, per_day })).await
    }

    /// Creates an account on this plan.
    pub async fn account_on(&self, plan: Plan) -> AccountName {
        let number = self.accounts.fetch_add(1, Ordering::Relaxed);
        let name = AccountName::parse(&format!("account-{number}")).expect("a name");
        let account = Some(account_message(&name, plan));
        let mut administrator = self.administrator();
        let created = administrator.create_account(pb::CreateAccountRequest { account });
        Box::pin(created).await.expect("a new account");
        name
    }

    /// Moves an account to another plan.
    pub async fn set_plan(&self, account: &AccountName, plan: Plan) {
        let update = pb::UpdateAccountRequest {
            account: account.to_string(),
            values: Some(account_message(account, plan)),
            update_mask: Some(FieldMask { paths: vec!["plan".to_owned()] }),
        };
        self.administrator().update_account(update).await.expect("the account is there");
    }

    /// Suspends an account, for this reason.
    pub async fn suspend(&self, account: &AccountName, reason: &str) {
        let suspension =
            pb::SuspendAccountRequest { account: account.to_string(), reason: reason.to_owned() };
        self.administrator().suspend_account(suspension).await.expect("the account is there");
    }

    /// Ends the suspension of an account.
    pub async fn resume(&self, account: &AccountName) {
        let resumption = pb::ResumeAccountRequest { account: account.to_string() };
        self.administrator().resume_account(resumption).await.expect("the account is there");
    }

    /// Creates an operator, and returns its token.
    pub async fn operator_token(&self, name: &str, role: Role) -> String {
        let name = OperatorName::parse(name).expect("a name");
        let changes = AdminStore::new(self.store());
        let issued = changes.create_operator(&Actor::LOCAL, &name, role, None, self.clock.now()).await;
        issued.expect("a new operator").1.expose().to_owned()
    }

    /// Returns a REST client with a new key of the account.
    pub async fn client_of(&self, account: &AccountName) -> Client {
        Box::pin(self.issue(account, pb::CreateKeyRequest::default())).await
    }

    /// Returns a REST client with a new key of the account that expires after this time.
    pub async fn client_expiring(&self, account: &AccountName, after: Duration) -> Client {
        let expiration = Some(Expiration::ExpireTime(self.clock.now().plus(after).to_timestamp()));
        self.issue(account, pb::CreateKeyRequest { expiration, ..Default::default() }).await
    }

    /// Revokes the client's key.
    pub async fn revoke(&self, client: &Client) {
        let revocation = pb::RevokeKeyRequest { key_id: self.key_id(client) };
        self.administrator().revoke_key(revocation).await.expect("the key is there");
    }

    /// Bans the client's key for this time, as an operator does.
    pub async fn ban(&self, client: &Client, length: Duration) {
        let end = length.try_into().ok().map(End::Duration);
        let ban = pb::CreateBanRequest { key_id: self.key_id(client), end, ..Default::default() };
        self.administrator().create_ban(ban).await.expect("the key is there");
    }

    /// Lifts the ban of the client's key.
    pub async fn lift_ban(&self, client: &Client) {
        let lifting = pb::LiftBanRequest { key_id: self.key_id(client) };
        self.administrator().lift_ban(lifting).await.expect("the key is there");
    }

    /// Returns the number of bans in the store.
    pub async fn bans(&self) -> usize {
        let bans = self.store().accounts.list_bans(self.clock.now(), None, None, None).await;
        bans.expect("the store answers").0.len()
    }

    /// Replaces the client's key, and returns a client with the new one. The old key works beside it for the
    /// grace period.
    pub async fn rotate(&self, client: &Client, grace: Duration) -> Client {
        let (key_id, grace) = (self.key_id(client), grace.try_into().ok());
        let rotation = pb::RotateKeyRequest { key_id, grace, ..Default::default() };
        let rotated =
            self.administrator().rotate_key(rotation).await.expect("the key is active").into_inner();
        self.client_with_key(&rotated.api_key, rotated.key)
    }

    /// Returns a REST client with a new key of the account that may only read.
    pub async fn client_reading(&self, account: &AccountName) -> Client {
        let access = pb::KeyAccess::Read.into();
        self.issue(account, pb::CreateKeyRequest { access, ..Default::default() }).await
    }

    /// Returns a REST client with a new key of the account that may be used from these addresses.
    pub async fn client_bound_to(&self, account: &AccountName, addresses: &[&str]) -> Client {
        let allowed_addresses = addresses.iter().map(|address| (*address).to_owned()).collect();
        self.issue(account, pb::CreateKeyRequest { allowed_addresses, ..Default::default() }).await
    }

    async fn issue(&self, account: &AccountName, request: pb::CreateKeyRequest) -> Client {
        let environment = match self.environment {
            Environment::Production => pb::Environment::Production,
            Environment::Staging => pb::Environment::Staging,
        };
        let (account, environment) = (account.to_string(), environment.into());
        let request = pb::CreateKeyRequest { account, environment, ..request };
        let mut administrator = self.administrator();
        let issued = Box::pin(administrator.create_key(request)).await.expect("the account is there");
        let issued = issued.into_inner();
        self.client_with_key(&issued.api_key, issued.key)
    }

    fn client_with_key(&self, key: &str, record: Option<pb::Key>) -> Client {
        let id = record.expect("a new key").id;
        self.key_ids.lock().expect("no panic under this lock").insert(key.to_owned(), id);
        self.anonymous().with_key(key)
    }

    fn key_id(&self, client: &Client) -> String {
        let ids = self.key_ids.lock().expect("no panic under this lock");
        ids.get(client.key()).expect("a key that this shop issued").clone()
    }
}

/// Returns a client of the administration of a core in this process, which acts as the operator `local`.
pub fn administrator(core: &Process, clock: Clock) -> AdminServiceClient<InMemory> {
    let core = Core::new(core.store().expect("the core's store").clone(), clock);
    AdminServiceClient::new(in_memory(Administration::new(core).services_as_local_operator()))
}

/// Returns an account as requests describe it.
pub fn account_message(name: &AccountName, plan: Plan) -> pb::Account {
    let limit = |limit| i64::try_from(limit).expect("a limit below 2⁵³");
    let limits = plan.agreed().map(|Quota { per_minute, per_day }| pb::Limits {
        per_minute: limit(per_minute),
        per_day: limit(per_day),
    });
    pb::Account { name: name.to_string(), plan: plan.number(), limits, ..Default::default() }
}

async fn database_url(folder: &Path) -> String {
    match Engine::of_this_run() {
        Engine::Sqlite => format!("sqlite://{}/petstore.db", folder.display()),
        Engine::Postgres => store_database().await.url(),
    }
}

fn settings(database: &str, flags: &[&str]) -> ServeSettings {
    let ports = ["--http-addr", "--grpc-addr", "--admin-addr"].map(|flag| [flag, FREE]).concat();
    let flags = [["--database-url", database].as_slice(), &ports, flags].concat();
    from_flags::<ServeSettings, _>(flags).unwrap_or_else(|error| panic!("{error}"))
}

/// Parses a time such as `2026-11-20T10:00:00Z`.
fn unix_millis(moment: &str) -> UnixMillis {
    let moment: jiff::Timestamp = moment.parse().expect("an RFC 3339 moment");
    UnixMillis(moment.as_millisecond().try_into().expect("a moment after 1970"))
}
