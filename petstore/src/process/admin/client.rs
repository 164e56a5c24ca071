//! The client of the admin port, for `petstore usage` and `petstore health`.

use std::{fmt, str::FromStr, time::Duration};

use axum::{
    body::{Body, to_bytes},
    http::{Request, StatusCode, Uri},
};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use petstore_gateway::LimitStatusBody;
use petstore_proto::admin::v1::Limits;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::limits::LimitsRequest;

/// How long a request may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
/// More than any answer has, in bytes.
const MAX_ANSWER: usize = 64 * 1024;

/// `http://HOST:PORT`.
#[derive(Clone, Debug)]
pub(crate) struct AdminUrl(String);

impl FromStr for AdminUrl {
    type Err = &'static str;

    fn from_str(written: &str) -> Result<Self, Self::Err> {
        const RIGHT: &str = "must be the URL of an admin port, such as http://127.0.0.1:9090";
        let url: Uri = written.parse().map_err(|_| RIGHT)?;
        let authority = url.authority().filter(|authority| authority.port().is_some()).ok_or(RIGHT)?;
        let is_plain =
            url.scheme_str() == Some("http") && matches!(url.path(), "" | "/") && url.query().is_none();
        let has_user = authority.as_str().contains('@');
        if is_plain && !has_user { Ok(Self(authority.as_str().to_owned())) } else { Err(RIGHT) }
    }
}

impl fmt::Display for AdminUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}", self.0)
    }
}

/// Where the admin port of a process is.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct AdminUrlSettings {
    /// The admin port of the process; for limits in use that of a gateway
    #[arg(long, env = "PETSTORE_ADMIN_URL", default_value = "http://127.0.0.1:9090", value_name = "URL")]
    pub(crate) admin_url: AdminUrl,
}

/// Why the admin port gave no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AdminPortError {
    #[error("--admin-url: the service at {url} has no account data; is this the admin port of a gateway?")]
    Refused { url: AdminUrl },
    #[error(
        "--admin-url: the service at {url} does not know that name: use its address, or start it with \
         --admin-host"
    )]
    Misdirected { url: AdminUrl },
    #[error("--admin-url: no answer from {url} in time")]
    Silent { url: AdminUrl },
    #[error("--admin-url: nothing answers at {url}; is the service running?")]
    Unreachable { url: AdminUrl },
}

/// A client of the admin port.
#[derive(Debug)]
pub(crate) struct AdminPortClient<'a> {
    url: &'a AdminUrl,
    http: Client<HttpConnector, Body>,
}

impl<'a> AdminPortClient<'a> {
    pub(crate) fn new(url: &'a AdminUrl) -> Self {
        Self { url, http: Client::builder(TokioExecutor::new()).build_http() }
    }

    /// Returns how much of its limits an account or a key of it has used, or `None` if nothing listens there.
    pub(crate) async fn limit_status(
        &self,
        account_id: i64,
        limits: Limits,
        key: Option<&str>,
    ) -> Result<Option<LimitStatusBody>, AdminPortError> {
        let [per_minute, per_day] =
            [limits.per_minute, limits.per_day].map(|limit| u64::try_from(limit).unwrap_or_default());
        let request = LimitsRequest { per_minute, per_day, key: key.map(str::to_owned) };
        let request = Request::post(format!("{}/limits/{account_id}", self.url))
            .body(Body::from(json!(request).to_string()));
        let url = self.url.clone();
        match self.send(request).await {
            Ok((StatusCode::OK, body)) => match serde_json::from_value(body) {
                Ok(status) => Ok(Some(status)),
                Err(_) => Err(AdminPortError::Refused { url }),
            },
            Ok((StatusCode::MISDIRECTED_REQUEST, _)) => Err(AdminPortError::Misdirected { url }),
            Ok(_) => Err(AdminPortError::Refused { url }),
            Err(AdminPortError::Unreachable { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns whether the process is ready for requests, and what `/readyz` says of its parts.
    pub(crate) async fn readiness(&self) -> Result<(bool, Value), AdminPortError> {
        let request = Request::get(format!("{}/readyz", self.url)).body(Body::empty());
        let (status, body) = self.send(request).await?;
        Ok((status == StatusCode::OK, body))
    }

    /// Returns the status and the body, which is JSON or else null.
    async fn send(
        &self,
        request: Result<Request<Body>, axum::http::Error>,
    ) -> Result<(StatusCode, Value), AdminPortError> {
        let url = || self.url.clone();
        let request = request.map_err(|_| AdminPortError::Refused { url: url() })?;
        let exchange = async {
            let response = self.http.request(request).await.map_err(|error| {
                if error.is_connect() {
                    AdminPortError::Unreachable { url: url() }
                } else {
                    AdminPortError::Silent { url: url() }
                }
            })?;
            let status = response.status();
            let body = to_bytes(Body::new(response.into_body()), MAX_ANSWER).await;
            let body = body.map_err(|_| AdminPortError::Silent { url: url() })?;
            Ok((status, serde_json::from_slice(&body).unwrap_or_default()))
        };
        timeout(REQUEST_TIMEOUT, exchange).await.map_err(|_| AdminPortError::Silent { url: url() })?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_admin_url_is_a_plain_host_and_port() {
        for right in ["http://127.0.0.1:9090", "http://[::1]:1/", "http://core.internal:9090"] {
            assert!(right.parse::<AdminUrl>().is_ok(), "{right}");
        }
        for wrong in ["127.0.0.1:9090", "https://a:1", "http://a", "http://a:1/x", "http://u:p@a:1", ""] {
            assert!(wrong.parse::<AdminUrl>().unwrap_err().contains("http://127.0.0.1:9090"), "{wrong}");
        }
    }
}
