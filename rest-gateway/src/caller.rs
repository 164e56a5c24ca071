//! Who sent a request that may pass.

use axum::extract::FromRequestParts;
use http::request::Parts;
use petstore_proto::internal::v1::Plan;

use crate::{error::ApiError, request_id::RequestId};

/// Who sent a request, once its key was found valid and its limits allow it. Only such a request has one, so
/// a handler that asks for it cannot be reached without a valid key.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) account_id: i64,
    pub(crate) plan: Plan,
    pub(crate) request_id: RequestId,
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        parts.extensions.get().cloned().ok_or(ApiError::Internal)
    }
}
