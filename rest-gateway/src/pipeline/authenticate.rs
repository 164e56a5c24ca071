//! Checks the API key of a request (docs/contract.md, 5).

use std::sync::Arc;

use http::HeaderMap;
use petstore_api_key::{ApiKey, BearerError};

use crate::{
    client_address::ClientAddress,
    error::ApiError,
    gateway::GatewayState,
    keys::{KeyError, KnownKey, UnusableKey},
};

/// Refusal of a request without a usable key.
#[derive(Debug)]
pub(super) struct Unauthenticated {
    pub(super) error: ApiError,
    /// The key, if it is known.
    pub(super) key: Option<Arc<KnownKey>>,
}

/// Returns the key of the request if it may be used now.
pub(super) async fn authenticate(
    gateway: &GatewayState,
    headers: &HeaderMap,
    address: ClientAddress,
) -> Result<Arc<KnownKey>, Unauthenticated> {
    let key = ApiKey::from_headers(headers, gateway.settings.environment)
        .map_err(|error| Unauthenticated { error: error.into(), key: None })?;
    let resolved = gateway.keys.resolve(&key, address).await;
    resolved.map_err(|UnusableKey { error, key }| Unauthenticated { error: error.into(), key })
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
