//! `petstore.admin.v1.AdminService`, called by its generated client, on the engine that
//! `PETSTORE_TEST_ENGINE` names.

use std::time::Duration;

use petstore_caller::api_key::{ApiKey, OperatorToken};
use petstore_clock::{Clock, ManualClock, UnixMillis};
use petstore_core::{
    Core,
    accounts::Plan,
    server::in_memory,
    store::{SCHEMA, Store},
};
use petstore_database::{OpenOptions, schema};
use petstore_proto::{
    admin::v1::{self as pb, admin_service_client::AdminServiceClient},
    internal::v1::{
        ResolveKeysRequest, ResolvedKey, key_service_client::KeyServiceClient,
        usage_service_client::UsageServiceClient,
    },
};
use petstore_test_servers::{Home, servers::Database};
use sea_orm::{ConnectionTrait, DbBackend};
use serde_json::Value;
use tonic::{Code, Request, Status, service::Routes};
use tonic_types::StatusExt;
use tower::{BoxError, util::BoxCloneSyncService};

use crate::{
    Administration,
    domain::{Actor, OperatorName, Role},
    store::AdminStore,
};

mod account_usage;
mod accounts;
mod audit;
mod first;
mod keys;
mod operators;
mod refusals;
mod revoked;
mod sessions;
mod usage;

const START: UnixMillis = UnixMillis(1_800_000_000_000);

type Transport =
    BoxCloneSyncService<http::Request<tonic::body::Body>, http::Response<tonic::body::Body>, BoxError>;
type Admin = AdminServiceClient<Transport>;

/// Opens the store, as another process would.
async fn open(home: &Home) -> Store {
    let options = OpenOptions { migrate: true, quick_check: true };
    Store::open(&home.url().parse().unwrap(), &[], options).await.unwrap()
}

pub(crate) async fn make_schema(database: &Database) {
    // Boxed: the compiler bounds how deep the futures of a test may be nested.
    Box::pin(schema::up(&database.url().parse().unwrap(), &SCHEMA)).await.unwrap();
}

struct Shop {
    core: Core,
    administration: Administration,
    store: AdminStore,
    hand: ManualClock,
    home: Home,
}

impl Shop {
    async fn open() -> Self {
        let home = Home::new(make_schema).await;
        let (clock, hand) = Clock::manual(START);
        let core = Core::new(open(&home).await, clock);
        let (administration, store) = (Administration::new(core.clone()), AdminStore::new(&core.store));
        Self { core, administration, store, hand, home }
    }

    fn keys(&self) -> KeyServiceClient<Transport> {
        KeyServiceClient::new(transport(self.administration.services()))
    }

    /// Returns the state of a key, and the revision of the answer.
    async fn resolve(&self, digest: &[u8]) -> (Option<ResolvedKey>, i64) {
        let request = ResolveKeysRequest { digests: vec![digest.to_vec()], ..Default::default() };
        let mut answer = self.keys().resolve_keys(request).await.unwrap().into_inner();
        (answer.keys.pop().and_then(|found| found.key), answer.revision)
    }
}

fn transport(services: Routes) -> Transport {
    BoxCloneSyncService::new(in_memory(services))
}

fn reason(status: &Status) -> String {
    status.get_error_details().error_info().map(|info| info.reason.clone()).unwrap_or_default()
}

fn verdict(status: &Status) -> (Code, String, String) {
    (status.code(), reason(status), status.message().to_owned())
}

fn refused(code: Code, reason: &str, message: &str) -> (Code, String, String) {
    (code, reason.to_owned(), message.to_owned())
}

/// Returns a client that is the local operator.
fn local(shop: &Shop) -> Admin {
    AdminServiceClient::new(transport(shop.administration.services_as_local_operator()))
}

/// Returns a client that adds no credential to its calls.
fn remote(shop: &Shop) -> Admin {
    AdminServiceClient::new(transport(shop.administration.services()))
}

/// Returns a client of the service that gateways report to.
fn reports(shop: &Shop) -> UsageServiceClient<Transport> {
    UsageServiceClient::new(transport(shop.administration.services()))
}

async fn token(shop: &Shop, name: &str, role: Role) -> String {
    let name = OperatorName::parse(name).unwrap();
    let issued = shop.store.create_operator(&Actor::LOCAL, &name, role, None, START).await.unwrap();
    issued.1.expose().to_owned()
}

fn with<M>(token: &str, message: M) -> Request<M> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
    request.metadata_mut().insert("petstore-client-address", "192.0.2.7".parse().unwrap());
    request
}

fn new_account(name: &str) -> pb::CreateAccountRequest {
    let account = pb::Account { name: name.into(), plan: pb::Plan::Free.into(), ..Default::default() };
    pb::CreateAccountRequest { account: Some(account) }
}

fn new_key(account: &str) -> pb::CreateKeyRequest {
    pb::CreateKeyRequest { account: account.into(), label: "shop floor".into(), ..Default::default() }
}

async fn events(admin: &mut Admin) -> Vec<pb::AuditEvent> {
    let everything = pb::ListAuditEventsRequest { page_size: 100, ..Default::default() };
    admin.list_audit_events(everything).await.unwrap().into_inner().events
}

fn update(account: &str, values: pb::Account, paths: &[&str]) -> pb::UpdateAccountRequest {
    let paths = paths.iter().map(|path| (*path).to_owned()).collect();
    pb::UpdateAccountRequest {
        account: account.into(),
        values: Some(values),
        update_mask: Some(prost_types::FieldMask { paths }),
    }
}

fn ban(key_id: &str) -> pb::CreateBanRequest {
    let hour = prost_types::Duration { seconds: 3_600, nanos: 0 };
    pb::CreateBanRequest {
        key_id: key_id.into(),
        reason: "open invoice".into(),
        end: Some(pb::create_ban_request::End::Duration(hour)),
    }
}

fn suspend(account: &str) -> pb::SuspendAccountRequest {
    pb::SuspendAccountRequest { account: account.into(), reason: "open invoice".into() }
}

/// Makes every change once. Returns the names of the methods, in order, and every secret that was shown.
async fn change_everything(admin: &mut Admin) -> (Vec<&'static str>, Vec<String>) {
    admin.create_account(new_account("acme")).await.unwrap();
    let values = pb::Account { name: "acme-2".into(), plan: pb::Plan::Pro.into(), ..Default::default() };
    admin.update_account(update("acme", values, &["name", "plan"])).await.unwrap();
    let key = admin.create_key(new_key("acme-2")).await.unwrap().into_inner();
    let id = key.key.unwrap().id;
    admin.create_ban(ban(&id)).await.unwrap();
    admin.lift_ban(pb::LiftBanRequest { key_id: id.clone() }).await.unwrap();
    let rotation = pb::RotateKeyRequest { key_id: id.clone(), ..Default::default() };
    let rotated = admin.rotate_key(rotation).await.unwrap().into_inner();
    admin.revoke_key(pb::RevokeKeyRequest { key_id: id }).await.unwrap();
    admin.suspend_account(suspend("acme-2")).await.unwrap();
    admin.resume_account(pb::ResumeAccountRequest { account: "acme-2".into() }).await.unwrap();
    let minute = prost_types::Duration { seconds: 60, nanos: 0 };
    let rehearsal = pb::CreateBrownoutRequest { duration: Some(minute), ..Default::default() };
    let planned = admin.create_brownout(rehearsal).await.unwrap().into_inner().brownout.unwrap();
    admin.cancel_brownout(pb::CancelBrownoutRequest { id: planned.id }).await.unwrap();
    let new = pb::CreateOperatorRequest { name: "bea".into(), role: pb::Role::Viewer.into(), ttl: None };
    let operator = admin.create_operator(new).await.unwrap().into_inner();
    let rotation = pb::RotateOperatorRequest { name: "bea".into(), expiration: None };
    let again = admin.rotate_operator(rotation).await.unwrap().into_inner();
    admin.revoke_operator(pb::RevokeOperatorRequest { name: "bea".into(), force: false }).await.unwrap();
    let actions = vec![
        "CreateAccount",
        "UpdateAccount",
        "CreateKey",
        "CreateBan",
        "LiftBan",
        "RotateKey",
        "RevokeKey",
        "SuspendAccount",
        "ResumeAccount",
        "CreateBrownout",
        "CancelBrownout",
        "CreateOperator",
        "RotateOperator",
        "RevokeOperator",
    ];
    (actions, vec![key.api_key, rotated.api_key, operator.token, again.token])
}
