//! Accounts.

use petstore_core::{
    accounts::{
        Account, AccountId, AccountName, AccountUpdate, ListAccounts, PlanUpdate, Remark, store::accounts,
    },
    errors::PetStoreError,
};
use petstore_proto::admin::v1::{
    self as pb, CreateAccountRequest, CreateAccountResponse, GetAccountRequest, GetAccountResponse,
    ListAccountsRequest, ListAccountsResponse, ResumeAccountRequest, ResumeAccountResponse,
    SuspendAccountRequest, SuspendAccountResponse, UpdateAccountRequest, UpdateAccountResponse,
};

use super::{caller::Call, convert};
use crate::{domain::PageTokens, error::Result};

pub(super) async fn create(call: Call, request: CreateAccountRequest) -> Result<CreateAccountResponse> {
    let account = request.account.unwrap_or_default(); // an empty account fails with all its missing members
    let name = AccountName::parse_field("name", &account.name).map_err(convert::refused)?;
    let plan = convert::plan(account.plan, account.limits)?;
    let created = call.change(move |change| {
        Box::pin(async move {
            let account = accounts::insert(change.session, &name, plan, change.now).await?;
            change.record("CreateAccount", None, &account).await?;
            Ok(account)
        })
    });
    let account = created.await?;
    Ok(CreateAccountResponse { account: Some(convert::account(&account)) })
}

pub(super) async fn get(call: Call, request: GetAccountRequest) -> Result<GetAccountResponse> {
    let account = match (request.account.as_str(), request.account_id) {
        ("", 0) => return Err(convert::refuse("account", "is required, or accountId")),
        ("", id) => call.accounts().find_account_by_id(AccountId(id)).await?,
        (name, 0) => call.accounts().find_account(&convert::account_name(name)?).await?,
        _ => return Err(convert::refuse("account", "must not be given beside accountId")),
    };
    Ok(GetAccountResponse { account: Some(convert::account(&account)) })
}

pub(super) async fn list(call: Call, request: ListAccountsRequest) -> Result<ListAccountsResponse> {
    let tokens = PageTokens::new('a', &(&request.name_contains, request.plan, request.suspended));
    let (size, after) = convert::page(&tokens, request.page_size, &request.page_token, |it| it.parse().ok())?;
    let part = &request.name_contains;
    if part.len() > AccountName::MAX_CHARS || part.contains(char::is_control) {
        let rule = "must be at most 64 bytes long, without control characters";
        return Err(convert::refuse("nameContains", rule));
    }
    let list = ListAccounts {
        size,
        after: after.map(AccountId),
        name_contains: Some(request.name_contains).filter(|part| !part.is_empty()),
        plan: convert::plan_name(request.plan).map_err(convert::refused)?,
        suspended: request.suspended,
    };
    let (rows, total_size) = call.accounts().list_accounts(list).await?;
    let (accounts, next_page_token) = convert::cut(rows, size, &tokens, |last| last.id.0.to_string());
    Ok(ListAccountsResponse {
        accounts: accounts.iter().map(convert::account).collect(),
        next_page_token,
        total_size,
    })
}

pub(super) async fn update(call: Call, request: UpdateAccountRequest) -> Result<UpdateAccountResponse> {
    let name = convert::account_name(&request.account)?;
    let values = request.values.unwrap_or_default();
    let mask = request.update_mask.unwrap_or_default().paths;
    let update = account_update(&values, &mask)?;
    let account =
        change_account(&call, name, "UpdateAccount", |account| Ok(update.apply_to(account)?)).await?;
    Ok(UpdateAccountResponse { account: Some(convert::account(&account)) })
}

/// Replaces the account with the result of `work`, and records that. Does nothing if the account stays
/// unchanged.
async fn change_account(
    call: &Call,
    name: AccountName,
    action: &'static str,
    work: impl FnOnce(Account) -> Result<Account, PetStoreError> + Clone + Send + 'static,
) -> Result<Account> {
    call.change(move |change| {
        Box::pin(async move {
            let (before, after) = accounts::change(change.session, &name, change.now, work).await?;
            if after != before {
                change.record(action, Some(&before), &after).await?;
            }
            Ok(after)
        })
    })
    .await
}

/// Fields of an account that requests may change, and those that are ignored in them.
const CHANGEABLE: [&str; 3] = ["name", "plan", "limits"];
const READ_ONLY: [&str; 4] = ["id", "create_time", "suspend_time", "suspend_reason"];

/// Returns the changes. Only fields in the mask are read.
fn account_update(values: &pb::Account, mask: &[String]) -> Result<AccountUpdate> {
    let names = |path: &str| mask.iter().any(|named| named == path);
    let is_known = |path: &String| CHANGEABLE.iter().chain(&READ_ONLY).any(|known| known == path);
    if !CHANGEABLE.into_iter().any(names) || !mask.iter().all(is_known) {
        return Err(convert::refuse("updateMask", "must name some of name, plan, limits"));
    }
    let name = names("name").then(|| AccountName::parse_field("name", &values.name)).transpose()?;
    let plan = match (names("plan"), names("limits")) {
        (true, _) => {
            let is_enterprise = values.plan == i32::from(pb::Plan::Enterprise);
            match values.limits.filter(|_| is_enterprise || names("limits")) {
                // A client that sends back a whole account also sends the fixed limits of its plan.
                Some(limits) if !is_enterprise && READ_ONLY.into_iter().any(names) => {
                    Some(PlanUpdate::SentBack(convert::plan(values.plan, None)?, convert::quota(limits)))
                }
                limits => Some(PlanUpdate::Plan(convert::plan(values.plan, limits)?)),
            }
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

/// Suspends an account. All its keys are refused. An account that is already suspended gets the new reason.
pub(super) async fn suspend(call: Call, request: SuspendAccountRequest) -> Result<SuspendAccountResponse> {
    let name = convert::account_name(&request.account)?;
    let reason = Remark::reason(&request.reason).map_err(convert::refused)?;
    let now = call.now;
    let suspend = move |account: Account| Ok(account.suspended(reason, now));
    let account = change_account(&call, name, "SuspendAccount", suspend).await?;
    Ok(SuspendAccountResponse { account: Some(convert::account(&account)) })
}

pub(super) async fn resume(call: Call, request: ResumeAccountRequest) -> Result<ResumeAccountResponse> {
    let name = convert::account_name(&request.account)?;
    let resume = |account: Account| Ok(Account { suspension: None, ..account });
    let account = change_account(&call, name, "ResumeAccount", resume).await?;
    Ok(ResumeAccountResponse { account: Some(convert::account(&account)) })
}
