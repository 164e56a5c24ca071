//! Accounts.

use petstore_proto::admin::v1 as pb;

use super::{caller::Caller, convert};
use crate::{
    Core,
    domain::{
        AccountId, AccountName, AccountUpdate, AdminList, ListAccounts, PetStoreError, PlanUpdate,
        StatedReason, Violation,
    },
};

/// Maximum length of the text that names are searched for.
const MAX_SEARCH: usize = AccountName::MAX_CHARS;

pub(super) async fn create(
    core: &Core,
    caller: Caller,
    request: pb::CreateAccountRequest,
) -> Result<pb::CreateAccountResponse, PetStoreError> {
    let account = request.account.unwrap_or_default(); // an empty account fails with all its missing members
    let name = convert::account_name(&account.name)?;
    let plan = convert::plan(account.plan, account.limits)?;
    let account = core.store.create_account(&caller.actor, &name, plan, caller.now).await?;
    Ok(pb::CreateAccountResponse { account: Some(convert::account(&account)) })
}

pub(super) async fn get(
    core: &Core,
    _: Caller,
    request: pb::GetAccountRequest,
) -> Result<pb::GetAccountResponse, PetStoreError> {
    let account = match (request.account.as_str(), request.account_id) {
        ("", 0) => return Err(convert::refused(Violation::new("account", "is required, or account_id"))),
        ("", id) => core.store.find_account_by_id(AccountId(id)).await?,
        (name, 0) => core.store.find_account(&convert::account_name(name)?).await?,
        _ => return Err(convert::refused(Violation::new("account", "must not be given beside account_id"))),
    };
    Ok(pb::GetAccountResponse { account: Some(convert::account(&account)) })
}

pub(super) async fn list(
    core: &Core,
    _: Caller,
    request: pb::ListAccountsRequest,
) -> Result<pb::ListAccountsResponse, PetStoreError> {
    let tokens = AdminList::Accounts.with(&(&request.name_contains, request.plan, request.suspended));
    let (size, after) = convert::page(&tokens, request.page_size, &request.page_token, convert::number)?;
    if request.name_contains.len() > MAX_SEARCH {
        return Err(convert::refused(Violation::new("name_contains", "must be at most 64 bytes long")));
    }
    let list = ListAccounts {
        size,
        after: after.map(AccountId),
        name_contains: Some(request.name_contains).filter(|part| !part.is_empty()),
        plan: convert::plan_name(request.plan).map_err(convert::refused)?,
        suspended: request.suspended,
    };
    let (rows, total_size) = core.store.list_accounts(list).await?;
    let (accounts, next_page_token) = convert::cut(rows, size, &tokens, |last| last.id.0.to_string());
    Ok(pb::ListAccountsResponse {
        accounts: accounts.iter().map(convert::account).collect(),
        next_page_token,
        total_size,
    })
}

pub(super) async fn update(
    core: &Core,
    caller: Caller,
    request: pb::UpdateAccountRequest,
) -> Result<pb::UpdateAccountResponse, PetStoreError> {
    let name = convert::account_name(&request.account)?;
    let values = request.values.unwrap_or_default();
    let mask = request.update_mask.unwrap_or_default().paths;
    let update = account_update(&values, &mask)?;
    let account = core.store.update_account(&caller.actor, &name, update, caller.now).await?;
    Ok(pb::UpdateAccountResponse { account: Some(convert::account(&account)) })
}

/// Returns the changes. Only fields in the mask are read.
fn account_update(values: &pb::Account, mask: &[String]) -> Result<AccountUpdate, PetStoreError> {
    let names = |path: &str| mask.iter().any(|named| named == path);
    let is_known = |path: &String| ["name", "plan", "limits"].contains(&path.as_str());
    if mask.is_empty() || !mask.iter().all(is_known) {
        return Err(convert::refused(Violation::new("update_mask", "must name some of name, plan, limits")));
    }
    let name = names("name").then(|| AccountName::parse_field("values.name", &values.name)).transpose()?;
    let plan = match (names("plan"), names("limits")) {
        (true, _) => {
            // A client that sends back a whole account also sends the fixed limits of its plan.
            let is_enterprise = values.plan == i32::from(pb::Plan::Enterprise);
            let limits = values.limits.filter(|_| is_enterprise || names("limits"));
            Some(PlanUpdate::Plan(convert::plan(values.plan, limits)?))
        }
        (false, true) => {
            let limits = Some(values.limits.unwrap_or_default());
            let plan = convert::plan(pb::Plan::Enterprise.into(), limits)?;
            plan.agreed().map(PlanUpdate::Limits)
        }
        (false, false) => None,
    };
    Ok(AccountUpdate { name, plan })
}

pub(super) async fn suspend(
    core: &Core,
    caller: Caller,
    request: pb::SuspendAccountRequest,
) -> Result<pb::SuspendAccountResponse, PetStoreError> {
    let name = convert::account_name(&request.account)?;
    let reason = StatedReason::parse_optional(&request.reason).map_err(convert::refused)?;
    let account = core.store.suspend_account(&caller.actor, &name, reason, caller.now).await?;
    Ok(pb::SuspendAccountResponse { account: Some(convert::account(&account)) })
}

pub(super) async fn resume(
    core: &Core,
    caller: Caller,
    request: pb::ResumeAccountRequest,
) -> Result<pb::ResumeAccountResponse, PetStoreError> {
    let name = convert::account_name(&request.account)?;
    let account = core.store.resume_account(&caller.actor, &name, caller.now).await?;
    Ok(pb::ResumeAccountResponse { account: Some(convert::account(&account)) })
}
