//! Checks the API key of a request (docs/contract.md, 5).

use std::sync::Arc;

use http::HeaderMap;

use crate::{
    client_address::ClientAddress,
    error::ApiError,
    gateway::GatewayState,
    keys::{BearerError, KeyError, KnownKey, bearer},
};

/// The key that the request carries, if it may be used now.
pub(super) async fn authenticate(
    gateway: &GatewayState,
    headers: &HeaderMap,
    address: ClientAddress,
) -> Result<Arc<KnownKey>, ApiError> {
    let key = bearer(headers, gateway.settings.environment)?;
    Ok(gateway.keys.resolve(&key, address).await?)
}

impl From<BearerError> for ApiError {
    fn from(error: BearerError) -> Self {
        match error {
            BearerError::Missing => Self::MissingApiKey,
            BearerError::Invalid => Self::InvalidApiKey,
        }
    }
}

impl From<KeyError> for ApiError {
    fn from(error: KeyError) -> Self {
        match error {
            KeyError::Unknown => Self::InvalidApiKey,
            KeyError::Revoked => Self::ApiKeyRevoked,
            KeyError::Expired => Self::ApiKeyExpired,
            KeyError::AccountSuspended(reason) => Self::AccountSuspended { reason },
            KeyError::CoreAway => Self::ApiKeyNotChecked,
            KeyError::Overloaded => Self::TooManyKeyLookups,
        }
    }
}
