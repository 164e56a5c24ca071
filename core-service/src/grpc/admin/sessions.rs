//! Sessions of operators.

use petstore_api_key::OperatorToken;
use petstore_proto::admin::v1 as pb;

use super::{caller::Caller, convert};
use crate::{
    Core,
    domain::{Operator, PetStoreError},
};

/// Opens a session for an operator's token. A session opens none, or it could last for ever.
pub(super) async fn create(
    core: &Core,
    caller: Caller,
    _: pb::CreateSessionRequest,
) -> Result<pb::CreateSessionResponse, PetStoreError> {
    if caller.token.as_ref().is_none_or(OperatorToken::is_session) {
        return Err(PetStoreError::InvalidOperatorToken);
    }
    let operators = core.store.operators().by(&caller.actor);
    let token = operators.open_session(&caller.operator.name, caller.now).await?;
    Ok(pb::CreateSessionResponse {
        operator: Some(convert::operator(&caller.operator)),
        token: token.expose().to_owned(),
        ttl: prost_types::Duration::try_from(Operator::SESSION_TTL).ok(),
    })
}

pub(super) async fn end(
    core: &Core,
    caller: Caller,
    _: pb::EndSessionRequest,
) -> Result<pb::EndSessionResponse, PetStoreError> {
    if let Some(token) = caller.token.filter(OperatorToken::is_session) {
        let operators = core.store.operators().by(&caller.actor);
        operators.end_session(&caller.operator.name, token.digest(), caller.now).await?;
    }
    Ok(pb::EndSessionResponse {})
}
