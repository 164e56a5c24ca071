//! Operators and their sessions.

use std::future::{Ready, ready};

use petstore_api_key::OperatorToken;
use petstore_proto::admin::v1 as pb;

use super::{caller::Caller, convert};
use crate::{
    Core,
    domain::{AdminList, Operator, OperatorName, PetStoreError},
};

pub(super) fn current(
    _: &Core,
    Caller { operator, .. }: Caller,
    _: pb::GetCurrentOperatorRequest,
) -> Ready<Result<pb::GetCurrentOperatorResponse, PetStoreError>> {
    ready(Ok(pb::GetCurrentOperatorResponse { operator: Some(convert::operator(&operator)) }))
}

pub(super) async fn create(
    core: &Core,
    caller: Caller,
    request: pb::CreateOperatorRequest,
) -> Result<pb::CreateOperatorResponse, PetStoreError> {
    let name = OperatorName::parse(&request.name).map_err(convert::refused)?;
    let role = convert::role(request.role)?;
    let (operator, token) = core.store.create_operator(&caller.actor, &name, role, caller.now).await?;
    let operator = Some(convert::operator(&operator));
    Ok(pb::CreateOperatorResponse { operator, token: token.expose().to_owned() })
}

pub(super) async fn list(
    core: &Core,
    _: Caller,
    request: pb::ListOperatorsRequest,
) -> Result<pb::ListOperatorsResponse, PetStoreError> {
    let tokens = AdminList::Operators.with(&());
    let (size, after) = convert::page(&tokens, request.page_size, &request.page_token, convert::number)?;
    let (rows, total_size) = core.store.list_operators(size, after).await?;
    let (operators, next_page_token) = convert::cut(rows, size, &tokens, |(id, _)| id.to_string());
    let operators = operators.iter().map(|(_, operator)| convert::operator(operator)).collect();
    Ok(pb::ListOperatorsResponse { operators, next_page_token, total_size })
}

pub(super) async fn rotate(
    core: &Core,
    caller: Caller,
    request: pb::RotateOperatorRequest,
) -> Result<pb::RotateOperatorResponse, PetStoreError> {
    let name = OperatorName::parse(&request.name).map_err(convert::refused)?;
    let (operator, token) = core.store.rotate_operator(&caller.actor, &name, caller.now).await?;
    let operator = Some(convert::operator(&operator));
    Ok(pb::RotateOperatorResponse { operator, token: token.expose().to_owned() })
}

pub(super) async fn revoke(
    core: &Core,
    caller: Caller,
    request: pb::RevokeOperatorRequest,
) -> Result<pb::RevokeOperatorResponse, PetStoreError> {
    let name = OperatorName::parse(&request.name).map_err(convert::refused)?;
    let operator = core.store.revoke_operator(&caller.actor, &name, request.force, caller.now).await?;
    Ok(pb::RevokeOperatorResponse { operator: Some(convert::operator(&operator)) })
}

/// Opens a session for an operator's token. A session cannot open another one, or it could last indefinitely.
pub(super) async fn open_session(
    core: &Core,
    caller: Caller,
    _: pb::CreateSessionRequest,
) -> Result<pb::CreateSessionResponse, PetStoreError> {
    if caller.token.as_ref().is_none_or(OperatorToken::is_session) {
        return Err(PetStoreError::InvalidOperatorToken);
    }
    let token = core.store.open_session(&caller.actor, caller.now).await?;
    Ok(pb::CreateSessionResponse {
        operator: Some(convert::operator(&caller.operator)),
        token: token.expose().to_owned(),
        ttl: prost_types::Duration::try_from(Operator::SESSION_TTL).ok(),
    })
}

/// Ends the session of the call, if the call carries one.
pub(super) async fn end_session(
    core: &Core,
    caller: Caller,
    _: pb::EndSessionRequest,
) -> Result<pb::EndSessionResponse, PetStoreError> {
    if let Some(token) = caller.token.filter(OperatorToken::is_session) {
        core.store.end_session(&caller.actor, token.digest(), caller.now).await?;
    }
    Ok(pb::EndSessionResponse {})
}
