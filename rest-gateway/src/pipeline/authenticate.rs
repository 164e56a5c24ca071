//! Checks the API key of a request (docs/contract.md, 5).

use std::{net::IpAddr, sync::Arc};

use http::{HeaderMap, Method};
use petstore_caller::api_key::{ApiKey, BearerError};
use petstore_key_cache::{KeyError, KnownKey, UnusableKey};

use crate::{error::ApiError, gateway::GatewayState};

/// Returns the key of the request if it may be used now.
pub(super) async fn authenticate(
    gateway: &GatewayState,
    headers: &HeaderMap,
    client: IpAddr,
) -> Result<Arc<KnownKey>, UnusableKey> {
    let key = ApiKey::from_headers(headers, gateway.settings.environment).map_err(|error| match error {
        BearerError::Missing => KeyError::Missing,
        BearerError::Invalid => KeyError::Unknown,
    })?;
    let resolved = gateway.keys.resolve(&key, client).await;
    let is_known = resolved.as_ref().map_or_else(|unusable| unusable.key.is_some(), |_| true);
    if is_known && !gateway.limiter.knows_installation() {
        Box::pin(gateway.keys.poll_once()).await; // its first answer names it; no request is counted before
    }
    resolved
}

/// Returns the refusal of a valid key that may not make this request (docs/contract.md, 5.14).
pub(super) fn forbid(key: &KnownKey, method: &Method) -> Option<ApiError> {
    let is_beyond_scope =
        key.is_read_only && !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
    is_beyond_scope.then_some(ApiError::InsufficientScope)
}

impl From<KeyError> for ApiError {
    fn from(error: KeyError) -> Self {
        match error {
            KeyError::Missing => Self::MissingApiKey,
            KeyError::Unknown => Self::InvalidApiKey,
            KeyError::Revoked => Self::ApiKeyRevoked,
            KeyError::Expired => Self::ApiKeyExpired,
            KeyError::AccountSuspended(reason) => Self::AccountSuspended { reason },
            KeyError::AddressNotAllowed => Self::AddressNotAllowed,
            KeyError::CoreAway => Self::ApiKeyNotChecked,
            KeyError::Overloaded => Self::TooManyKeyLookups,
        }
    }
}
