//! Errors of the admin API. The body is the Error object of the public interface.

use std::time::Duration;

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use petstore_caller::api_key::redact;
use petstore_clock::whole_secs;
use petstore_core_client::failure_text;
use petstore_gateway::{ApiError, error_response};
use petstore_proto::{ERROR_DOMAIN, admin::v1::AdminErrorReason};
use tonic::{Code, Status};
use tonic_types::StatusExt;

/// Reason for an Error body in place of the requested answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum AdminApiError {
    #[error("an operator token is required: send the header Authorization: Bearer pet_op_…")]
    MissingToken,
    /// Refusal by the core, with its own message.
    #[error("{message}")]
    Refused { reason: AdminErrorReason, message: String, retry_after: Option<Duration> },
    /// Older cores lack newer methods.
    #[error("the core lacks this method: upgrade it")]
    NotServed,
    #[error(transparent)]
    Api(#[from] ApiError),
}

/// Returns the reason of a refusal by the core, if it is one of the admin API.
pub fn admin_reason(status: &Status) -> Option<AdminErrorReason> {
    let info = status.get_details_error_info().filter(|info| info.domain == ERROR_DOMAIN)?;
    AdminErrorReason::named(&info.reason)
}

/// Maps a status by the reason in its `ErrorInfo`. A status without a reason of the admin API is mapped as on
/// the public interface.
impl From<&Status> for AdminApiError {
    fn from(status: &Status) -> Self {
        match (admin_reason(status), status.code()) {
            (Some(reason), _) => Self::Refused {
                reason,
                message: status.message().to_owned(),
                retry_after: status.get_details_retry_info().and_then(|info| info.retry_delay),
            },
            (None, Code::Unimplemented) => Self::NotServed,
            (None, _) => {
                let error = ApiError::from(status);
                if error.status().is_server_error() {
                    tracing::warn!(
                        target: "petstore_gateway::admin",
                        status = error.status().as_u16(),
                        error = failure_text(status),
                        "a call of the admin service failed"
                    );
                }
                error.into()
            }
        }
    }
}

impl IntoResponse for AdminApiError {
    fn into_response(self) -> Response {
        let message = self.to_string();
        let mut response = match self {
            Self::Api(ApiError::InvalidParameter(_)) => {
                ApiError::InvalidParameter(redact(&message).into_owned().into()).into_response()
            }
            Self::Api(error) => error.into_response(),
            Self::NotServed => error_response(StatusCode::SERVICE_UNAVAILABLE, "UNAVAILABLE", &message),
            Self::MissingToken => refusal(AdminErrorReason::InvalidOperatorToken, &message, None),
            Self::Refused { reason, retry_after, .. } => refusal(reason, &redact(&message), retry_after),
        };
        let headers = response.headers_mut();
        headers.remove(header::LINK); // to pages that are on the public port
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }
}

fn refusal(reason: AdminErrorReason, message: &str, retry_after: Option<Duration>) -> Response {
    let code = reason.code();
    let mut response = error_response(code.http, code.name, message);
    if let Some(retry_after) = retry_after {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(whole_secs(retry_after)));
    }
    if reason == AdminErrorReason::InvalidOperatorToken {
        let challenge = HeaderValue::from_static(r#"Bearer realm="petstore-admin""#);
        response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
    }
    response
}
