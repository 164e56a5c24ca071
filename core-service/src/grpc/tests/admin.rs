//! `petstore.admin.v1.AdminService`.

use petstore_api_key::{ApiKey, OperatorToken};
use petstore_proto::{
    admin::v1::{self as pb, admin_service_client::AdminServiceClient},
    internal::v1::usage_service_client::UsageServiceClient,
};
use serde_json::Value;

use super::*;
use crate::domain::{AccountName, Actor, OperatorName, Plan, Role};

mod accounts;
mod audit;
mod keys;
mod operators;
mod refusals;
mod sessions;
mod usage;

type Admin = AdminServiceClient<Transport>;

/// Returns a client that is the local operator.
fn local(shop: &Shop) -> Admin {
    AdminServiceClient::new(BoxCloneSyncService::new(in_memory_as_local_operator(&shop.core)))
}

/// Returns a client that adds no credential to its calls.
fn remote(shop: &Shop) -> Admin {
    AdminServiceClient::new(BoxCloneSyncService::new(in_memory(&shop.core)))
}

/// Returns a client of the service that gateways report to.
fn reports(shop: &Shop) -> UsageServiceClient<Transport> {
    UsageServiceClient::new(BoxCloneSyncService::new(in_memory(&shop.core)))
}

async fn token(shop: &Shop, name: &str, role: Role) -> String {
    let name = OperatorName::parse(name).unwrap();
    let issued = shop.core.store().create_operator(&Actor::LOCAL, &name, role, START).await.unwrap();
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
    let new = pb::CreateOperatorRequest { name: "bea".into(), role: pb::Role::Viewer.into() };
    let operator = admin.create_operator(new).await.unwrap().into_inner();
    let rotation = pb::RotateOperatorRequest { name: "bea".into() };
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
        "CreateOperator",
        "RotateOperator",
        "RevokeOperator",
    ];
    (actions, vec![key.api_key, rotated.api_key, operator.token, again.token])
}
