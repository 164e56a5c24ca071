//! The whole service in this process.

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

use petstore::serve::{self, Running, ServeSettings};
use petstore_api_key::Environment;
use petstore_clock::{Clock, ClockHand, UnixMillis};
use petstore_core::{
    accounts::{self, IssuedKey, keys},
    domain::{AccountName, KeyId, Plan, Quota},
};
use tempfile::TempDir;

use crate::Client;

/// When a test begins, unless it says otherwise: the middle of a day, so that no window ends by accident.
const START: &str = "2026-11-20T10:00:00Z";
const DAY_SECS: u64 = 86_400;

/// The service on a store of its own, listening on free ports of the loopback. Its clock stands still until
/// [`TestShop::advance`]. Everything ends when it is dropped.
#[derive(Debug)]
pub struct TestShop {
    running: Running,
    clock: Clock,
    hand: ClockHand,
    environment: Environment,
    accounts: AtomicU32,
    key_ids: Mutex<HashMap<String, KeyId>>,
    _folder: TempDir,
}

impl TestShop {
    /// Opens the shop at 2026-11-20T10:00:00Z.
    pub async fn open() -> Self {
        Self::start(START, &[]).await
    }

    /// Opens the shop at this moment (RFC 3339).
    pub async fn open_at(moment: &str) -> Self {
        Self::start(moment, &[]).await
    }

    /// Opens the shop with these flags of `petstore serve`.
    pub async fn open_with(flags: &[&str]) -> Self {
        Self::start(START, flags).await
    }

    async fn start(moment: &str, flags: &[&str]) -> Self {
        let folder = TempDir::new().expect("a temporary folder");
        let (clock, hand) = Clock::manual(unix_millis(moment));
        let settings = settings(folder.path(), flags);
        let environment = settings.environment.environment;
        let running = serve::start(settings, clock.clone()).await.expect("the service starts");
        let (accounts, key_ids) = (AtomicU32::new(0), Mutex::default());
        Self { running, clock, hand, environment, accounts, key_ids, _folder: folder }
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        self.hand.advance(by);
    }

    /// What the clock shows, in whole seconds.
    #[must_use]
    pub fn unix_secs(&self) -> u64 {
        self.clock.now().as_secs()
    }

    /// When the UTC day ends, in Unix seconds.
    #[must_use]
    pub fn midnight(&self) -> u64 {
        (self.unix_secs() / DAY_SECS + 1) * DAY_SECS
    }

    /// Where gRPC is served.
    #[must_use]
    pub fn grpc_addr(&self) -> SocketAddr {
        self.running.grpc_addr
    }

    /// Speaks REST without a key.
    #[must_use]
    pub fn anonymous(&self) -> Client {
        Client::new(self.running.http_addr)
    }

    /// Speaks to the admin port.
    #[must_use]
    pub fn admin(&self) -> Client {
        Client::new(self.running.admin_addr)
    }

    /// Speaks REST with a key of a new account on this plan.
    pub async fn client_on(&self, plan: Plan) -> Client {
        self.client_of(&self.account_on(plan).await).await
    }

    /// Speaks REST with a key of a new Enterprise account with these numbers.
    pub async fn client_with(&self, per_minute: u64, per_day: u64) -> Client {
        self.client_on(Plan::Enterprise(Quota { per_minute, per_day })).await
    }

    /// A new account on this plan.
    pub async fn account_on(&self, plan: Plan) -> AccountName {
        let number = self.accounts.fetch_add(1, Ordering::Relaxed);
        let name = AccountName::parse(&format!("account-{number}")).expect("a name");
        accounts::create(self.running.store(), &self.clock, &name, plan).await.expect("a new account");
        name
    }

    /// Puts an account on another plan.
    pub async fn set_plan(&self, account: &AccountName, plan: Plan) {
        accounts::set_plan(self.running.store(), account, plan).await.expect("the account is there");
    }

    /// Speaks REST with a new key of the account.
    pub async fn client_of(&self, account: &AccountName) -> Client {
        self.issue(account, None).await
    }

    /// Speaks REST with a new key of the account that expires after so long.
    pub async fn client_expiring(&self, account: &AccountName, after: Duration) -> Client {
        self.issue(account, Some(self.clock.now().plus(after))).await
    }

    /// Revokes the client's key.
    pub async fn revoke(&self, client: &Client) {
        let id = self.key_id(client);
        keys::revoke(self.running.store(), &self.clock, id).await.expect("the key is there");
    }

    /// Replaces the client's key: the old one works for the grace period beside that of the client given back.
    pub async fn rotate(&self, client: &Client, grace: Duration) -> Client {
        let id = self.key_id(client);
        let issued = keys::rotate(self.running.store(), &self.clock, id, grace, None)
            .await
            .expect("the key is active");
        self.client_with_key(&issued)
    }

    async fn issue(&self, account: &AccountName, expires_at: Option<UnixMillis>) -> Client {
        let issued =
            keys::create(self.running.store(), &self.clock, account, self.environment, expires_at).await;
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

fn settings(folder: &Path, flags: &[&str]) -> ServeSettings {
    let database = format!("sqlite://{}/petstore.db", folder.display());
    let ports = ["--http-addr", "--grpc-addr", "--admin-addr"].map(|flag| [flag, "127.0.0.1:0"]).concat();
    let flags = [["--database-url", &database].as_slice(), &ports, flags].concat();
    ServeSettings::from_flags(flags).unwrap_or_else(|error| panic!("{error}"))
}

/// A moment written as `2026-11-20T10:00:00Z`.
fn unix_millis(moment: &str) -> UnixMillis {
    let moment: jiff::Timestamp = moment.parse().expect("an RFC 3339 moment");
    UnixMillis(moment.as_millisecond().try_into().expect("a moment after 1970"))
}
