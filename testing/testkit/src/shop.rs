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
    Process,
    servers::{GatewaySettings, ServeSettings, start_gateway, start_service},
};
use petstore_admin_service::{
    domain::{Actor, OperatorName, Role},
    store::AdminStore,
};
use petstore_caller::api_key::Environment;
use petstore_caller::client_address::AllowedAddresses;
use petstore_clock::{Clock, ManualClock, UnixMillis};
use petstore_core::{
    accounts::{
        AccountName, AccountUpdate, IssuedKey, KeyId, KeyProperties, KeyScope, NewExpiry, Plan, PlanUpdate,
        Quota, Remark,
    },
    store::Store,
};
use petstore_settings::{GrpcAddr, from_flags};
use tempfile::TempDir;

use crate::{Client, Engine, eventually, store_database::store_database};

/// Default time at which a test begins: the middle of a day, so that no window ends by accident.
const START: &str = "2026-11-20T10:00:00Z";
const DAY_SECS: u64 = 86_400;

/// Address with any free port.
const FREE: &str = "127.0.0.1:0";

/// Timeout within which a further gateway must reach the core.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(10);

/// Service on its own store, listening on free ports of the loopback. Its clock only advances by
/// [`TestShop::advance`]. Requests are counted by the limiter that the variable `PETSTORE_TEST_LIMITER`
/// names, so that one suite tests every limiter. Everything ends when it is dropped.
#[derive(Debug)]
pub struct TestShop {
    running: Process,
    /// Gateways beside the first, which runs in one process with the core.
    further_gateways: Vec<Process>,
    clock: Clock,
    hand: ManualClock,
    environment: Environment,
    database_url: String,
    accounts: AtomicU32,
    key_ids: Mutex<HashMap<String, KeyId>>,
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
        let environment = settings.environment.environment;
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

    fn changes(&self) -> AdminStore {
        AdminStore::new(self.store())
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
        self.running.metrics().table()
    }

    /// Returns the address of gRPC.
    pub fn grpc_addr(&self) -> SocketAddr {
        self.running.addresses.grpc.as_ref().and_then(GrpcAddr::tcp).expect("a TCP port")
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
        self.client_of(&self.account_on(plan).await).await
    }

    /// Returns a REST client with a key of a new Enterprise account with these limits.
    pub async fn client_with(&self, per_minute: u64, per_day: u64) -> Client {
        self.client_on(Plan::Enterprise(Quota { per_minute, per_day })).await
    }

    /// Creates an account on this plan.
    pub async fn account_on(&self, plan: Plan) -> AccountName {
        let number = self.accounts.fetch_add(1, Ordering::Relaxed);
        let name = AccountName::parse(&format!("account-{number}")).expect("a name");
        self.changes()
            .create_account(&Actor::LOCAL, &name, plan, self.clock.now())
            .await
            .expect("a new account");
        name
    }

    /// Moves an account to another plan.
    pub async fn set_plan(&self, account: &AccountName, plan: Plan) {
        let update = AccountUpdate { plan: Some(PlanUpdate::Plan(plan)), name: None };
        self.changes()
            .update_account(&Actor::LOCAL, account, update, self.clock.now())
            .await
            .expect("the account is there");
    }

    /// Suspends an account, for this reason.
    pub async fn suspend(&self, account: &AccountName, reason: &str) {
        let reason = Remark::reason(reason).expect("a reason");
        let changes = self.changes();
        let suspended = changes.suspend_account(&Actor::LOCAL, account, reason, self.clock.now());
        suspended.await.expect("the account is there");
    }

    /// Ends the suspension of an account.
    pub async fn resume(&self, account: &AccountName) {
        let changes = self.changes();
        let resumed = changes.resume_account(&Actor::LOCAL, account, self.clock.now());
        resumed.await.expect("the account is there");
    }

    /// Creates an operator, and returns its token.
    pub async fn operator_token(&self, name: &str, role: Role) -> String {
        let name = OperatorName::parse(name).expect("a name");
        let issued = self.changes().create_operator(&Actor::LOCAL, &name, role, None, self.clock.now()).await;
        issued.expect("a new operator").1.expose().to_owned()
    }

    /// Returns a REST client with a new key of the account.
    pub async fn client_of(&self, account: &AccountName) -> Client {
        self.issue(account, KeyProperties::default()).await
    }

    /// Returns a REST client with a new key of the account that expires after this time.
    pub async fn client_expiring(&self, account: &AccountName, after: Duration) -> Client {
        let expires_at = Some(self.clock.now().plus(after));
        self.issue(account, KeyProperties { expires_at, ..KeyProperties::default() }).await
    }

    /// Revokes the client's key.
    pub async fn revoke(&self, client: &Client) {
        let id = self.key_id(client);
        self.changes().revoke_key(&Actor::LOCAL, id, self.clock.now()).await.expect("the key is there");
    }

    /// Bans the client's key for this time, as an operator does.
    pub async fn ban(&self, client: &Client, length: Duration) {
        let banned =
            self.changes().add_ban(&Actor::LOCAL, self.key_id(client), length, None, self.clock.now()).await;
        banned.expect("the key is there");
    }

    /// Lifts the ban of the client's key.
    pub async fn lift_ban(&self, client: &Client) {
        let lifted = self.changes().lift_ban(&Actor::LOCAL, self.key_id(client), self.clock.now()).await;
        lifted.expect("the key is there");
    }

    /// Returns the number of bans in the store.
    pub async fn bans(&self) -> usize {
        let bans = self.store().accounts().list_bans(self.clock.now(), None, None, None).await;
        bans.expect("the store answers").0.len()
    }

    /// Replaces the client's key, and returns a client with the new one. The old key works beside it for the
    /// grace period.
    pub async fn rotate(&self, client: &Client, grace: Duration) -> Client {
        let id = self.key_id(client);
        let (issued, _) = self
            .changes()
            .rotate_key(&Actor::LOCAL, id, grace, None, NewExpiry::SameLifetime, self.clock.now())
            .await
            .expect("the key is active");
        self.client_with_key(&issued)
    }

    /// Returns a REST client with a new key of the account that may only read.
    pub async fn client_reading(&self, account: &AccountName) -> Client {
        let scope = KeyScope { is_read_only: true, ..KeyScope::default() };
        self.issue(account, KeyProperties { scope, ..KeyProperties::default() }).await
    }

    /// Returns a REST client with a new key of the account that may be used from these addresses.
    pub async fn client_bound_to(&self, account: &AccountName, addresses: &[&str]) -> Client {
        let addresses = AllowedAddresses::parse(addresses.iter().copied()).expect("addresses");
        let scope = KeyScope { addresses, ..KeyScope::default() };
        self.issue(account, KeyProperties { scope, ..KeyProperties::default() }).await
    }

    async fn issue(&self, account: &AccountName, properties: KeyProperties) -> Client {
        let changes = self.changes();
        let issued =
            changes.create_key(&Actor::LOCAL, account, self.environment, properties, self.clock.now()).await;
        self.client_with_key(&issued.expect("the account is there"))
    }

    fn client_with_key(&self, issued: &IssuedKey) -> Client {
        let key = issued.key.expose();
        self.key_ids.lock().expect("no panic under this lock").insert(key.to_owned(), issued.record.id);
        self.anonymous().with_key(key)
    }

    fn key_id(&self, client: &Client) -> KeyId {
        let ids = self.key_ids.lock().expect("no panic under this lock");
        *ids.get(client.key()).expect("a key that this shop issued")
    }
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
