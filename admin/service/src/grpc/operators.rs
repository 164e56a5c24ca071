//! Operators, their sessions, and the changes that they made.

use std::future::{Ready, ready};

use petstore_caller::api_key::{ApiKey, KeyDigest};
use petstore_clock::UnixMillis;
use petstore_core::{
    accounts::{AccountName, NewExpiry},
    errors::PetStoreError,
};
use petstore_proto::admin::v1::{
    CreateOperatorRequest, CreateOperatorResponse, CreateSessionRequest, CreateSessionResponse,
    EndSessionRequest, EndSessionResponse, GetCurrentOperatorRequest, GetCurrentOperatorResponse,
    ListAuditEventsRequest, ListAuditEventsResponse, ListOperatorsRequest, ListOperatorsResponse,
    ListSessionsRequest, ListSessionsResponse, RecordLogLevelRequest, RecordLogLevelResponse,
    RevokeOperatorRequest, RevokeOperatorResponse, RevokeSessionRequest, RevokeSessionResponse,
    RotateOperatorRequest, RotateOperatorResponse, rotate_operator_request::Expiration,
};

use super::{caller::Call, convert};
use crate::{
    domain::{ListAuditEvents, Operator, OperatorName, PageTokens},
    error::{AdminError, Result},
};

/// Upper bound of a log filter in the audit log, in bytes.
const MAX_LOG_FILTER: usize = 1_000;

pub(super) fn current(
    Call { operator, .. }: Call,
    _: GetCurrentOperatorRequest,
) -> Ready<Result<GetCurrentOperatorResponse>> {
    ready(Ok(GetCurrentOperatorResponse { operator: Some(convert::operator(&operator)) }))
}

pub(super) async fn create(call: Call, request: CreateOperatorRequest) -> Result<CreateOperatorResponse> {
    let name = OperatorName::parse(&request.name).map_err(convert::refused)?;
    let role = convert::role(request.role)?;
    let expires_at = request.ttl.map(|ttl| expiry(&call, ttl)).transpose()?;
    let created = call.store.create_operator(&call.actor, &name, role, expires_at, call.now);
    let (operator, token) = created.await?;
    let operator = Some(convert::operator(&operator));
    Ok(CreateOperatorResponse { operator, token: token.expose().to_owned() })
}

/// Returns the expiry of a key or token with this lifetime.
pub(super) fn expiry(call: &Call, ttl: prost_types::Duration) -> Result<UnixMillis> {
    let ttl = convert::duration("ttl", ttl)?;
    if ttl.is_zero() {
        return Err(convert::refuse("ttl", "must be positive"));
    }
    convert::after("ttl", call.now, ttl)
}

pub(super) async fn list(call: Call, request: ListOperatorsRequest) -> Result<ListOperatorsResponse> {
    let tokens = PageTokens::new('o', &());
    let (size, after) = convert::page(&tokens, request.page_size, &request.page_token, |it| it.parse().ok())?;
    let (rows, total_size) = call.store.list_operators(size, after).await?;
    let (operators, next_page_token) = convert::cut(rows, size, &tokens, |(id, _)| id.to_string());
    let operators = operators.iter().map(|(_, operator)| convert::operator(operator)).collect();
    Ok(ListOperatorsResponse { operators, next_page_token, total_size })
}

pub(super) async fn rotate(call: Call, request: RotateOperatorRequest) -> Result<RotateOperatorResponse> {
    let name = OperatorName::parse(&request.name).map_err(convert::refused)?;
    let expiry = match request.expiration {
        None => NewExpiry::SameLifetime,
        Some(Expiration::Ttl(ttl)) => NewExpiry::At(expiry(&call, ttl)?),
        Some(Expiration::Never(true)) => NewExpiry::Never,
        Some(Expiration::Never(false)) => return Err(convert::refuse("never", "must be true")),
    };
    let (operator, token) = call.store.rotate_operator(&call.actor, &name, expiry, call.now).await?;
    let operator = Some(convert::operator(&operator));
    Ok(RotateOperatorResponse { operator, token: token.expose().to_owned() })
}

pub(super) async fn revoke(call: Call, request: RevokeOperatorRequest) -> Result<RevokeOperatorResponse> {
    let name = OperatorName::parse(&request.name).map_err(convert::refused)?;
    let operator = call.store.revoke_operator(&call.actor, &name, request.force, call.now).await?;
    Ok(RevokeOperatorResponse { operator: Some(convert::operator(&operator)) })
}

/// Opens a session for an operator's token.
pub(super) async fn open_session(call: Call, _: CreateSessionRequest) -> Result<CreateSessionResponse> {
    let token = call.actor.token.as_ref().ok_or(AdminError::InvalidOperatorToken)?;
    let token = call.store.open_session(&call.actor, token, call.now).await?;
    Ok(CreateSessionResponse {
        operator: Some(convert::operator(&call.operator)),
        token: token.expose().to_owned(),
        ttl: prost_types::Duration::try_from(Operator::SESSION_TTL).ok(),
    })
}

/// Ends the session of the call, if the call carries one.
pub(super) async fn end_session(call: Call, _: EndSessionRequest) -> Result<EndSessionResponse> {
    if let Some(token) = call.actor.token.as_ref().filter(|token| token.is_session()) {
        call.store.end_session(&call.actor, token.digest(), call.now).await?;
    }
    Ok(EndSessionResponse {})
}

pub(super) async fn sessions(call: Call, _: ListSessionsRequest) -> Result<ListSessionsResponse> {
    Ok(ListSessionsResponse { sessions: call.store.list_sessions(call.now).await? })
}

pub(super) async fn revoke_session(
    call: Call,
    request: RevokeSessionRequest,
) -> Result<RevokeSessionResponse> {
    let digest = KeyDigest::from_hex(&request.id);
    let digest = digest.ok_or_else(|| convert::refuse("id", "must be the identifier of a session"))?;
    call.store.revoke_session(&call.actor, digest, call.now).await?;
    Ok(RevokeSessionResponse {})
}

pub(super) async fn record_log_level(
    call: Call,
    RecordLogLevelRequest { before, after }: RecordLogLevelRequest,
) -> Result<RecordLogLevelResponse> {
    let is_filter = |text: &str| {
        (1..=MAX_LOG_FILTER).contains(&text.len())
            && !text.contains(char::is_control)
            && !ApiKey::begins_in(text)
    };
    if !is_filter(&after) {
        return Err(convert::refuse("after", "must be 1 to 1000 bytes long, without a key"));
    }
    // No filter until now prevents the change.
    let shown = &before[..before.floor_char_boundary(MAX_LOG_FILTER)];
    let before = if is_filter(shown) { shown } else { "not shown" }.to_owned();
    call.store.record_log_level(&call.actor, [before, after], call.now).await?;
    Ok(RecordLogLevelResponse {})
}

pub(super) async fn events(call: Call, request: ListAuditEventsRequest) -> Result<ListAuditEventsResponse> {
    let filters =
        (&request.operator, &request.account, &request.key_id, request.start_time, request.end_time);
    let tokens = PageTokens::new('e', &filters);
    let (size, before) =
        convert::page(&tokens, request.page_size, &request.page_token, |it| it.parse().ok())?;
    let given = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    // `local` is a valid name here, but cannot be given to an operator.
    let name = |field, text| given(text).map(|name| AccountName::parse_field(field, &name)).transpose();
    let account = match name("account", &request.account).map_err(convert::refused)? {
        None => None,
        Some(name) => match call.accounts().find_account(&name).await {
            Ok(account) => Some((name.to_string(), Some(account.id))),
            Err(PetStoreError::AccountNotFound(_)) => Some((name.to_string(), None)),
            Err(error) => return Err(error.into()),
        },
    };
    let list = ListAuditEvents {
        size,
        before,
        operator: name("operator", &request.operator).map_err(convert::refused)?.map(|name| name.to_string()),
        account,
        key_id: given(&request.key_id).map(|id| convert::key_id(&id)).transpose()?.map(|id| id.to_string()),
        since: request.start_time.map(|start| convert::moment("startTime", start)).transpose()?,
        until: request.end_time.map(|end| convert::moment("endTime", end)).transpose()?,
    };
    let (rows, total_size) = call.store.list_audit_events(list).await?;
    let (events, next_page_token) = convert::cut(rows, size, &tokens, |last| last.id.to_string());
    Ok(ListAuditEventsResponse { events, next_page_token, total_size })
}
