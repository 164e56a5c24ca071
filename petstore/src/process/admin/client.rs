//! The client of the admin port, for `petstore usage`.

use std::{fmt, str::FromStr, time::Duration};

use axum::{
    body::{Body, to_bytes},
    http::{Request, StatusCode, Uri},
};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use petstore_core::domain::{Account, KeyId, Quota};
use petstore_gateway::LimitStatusBody;
use serde_json::json;
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

/// Why the admin port gave no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AdminClientError {
    #[error("--admin-url: the service at {url} has no account data; is this the admin port of a gateway?")]
    Refused { url: AdminUrl },
    #[error(
        "--admin-url: the service at {url} does not know that name: use its address, or start it with \
         --admin-host"
    )]
    Misdirected { url: AdminUrl },
    #[error("--admin-url: no answer from {url} in time")]
    Silent { url: AdminUrl },
}

/// A client of the admin port.
#[derive(Debug)]
pub(crate) struct AdminClient<'a> {
    url: &'a AdminUrl,
    http: Client<HttpConnector, Body>,
}

impl<'a> AdminClient<'a> {
    pub(crate) fn new(url: &'a AdminUrl) -> Self {
        Self { url, http: Client::builder(TokioExecutor::new()).build_http() }
    }

    /// Returns how much of its limits an account or a key of it has used, or `None` if nothing listens there.
    pub(crate) async fn limit_status(
        &self,
        account: &Account,
        key: Option<KeyId>,
    ) -> Result<Option<LimitStatusBody>, AdminClientError> {
        let url = || self.url.clone();
        let Quota { per_minute, per_day } = account.plan.quota();
        let request = LimitsRequest { per_minute, per_day, key: key.map(|key| key.to_string()) };
        let request = Request::post(format!("{url}/limits/{}", account.id.0, url = self.url))
            .body(Body::from(json!(request).to_string()))
            .map_err(|_| AdminClientError::Refused { url: url() })?;
        let exchange = async {
            let response = self.http.request(request).await.map_err(|error| error.is_connect())?;
            let status = response.status();
            let body = to_bytes(Body::new(response.into_body()), MAX_ANSWER).await.map_err(|_| false)?;
            Ok((status, body))
        };
        match timeout(REQUEST_TIMEOUT, exchange).await {
            Ok(Ok((StatusCode::OK, body))) => match serde_json::from_slice(&body) {
                Ok(status) => Ok(Some(status)),
                Err(_) => Err(AdminClientError::Refused { url: url() }),
            },
            Ok(Ok((StatusCode::MISDIRECTED_REQUEST, _))) => Err(AdminClientError::Misdirected { url: url() }),
            Ok(Ok(_)) => Err(AdminClientError::Refused { url: url() }),
            Ok(Err(true)) => Ok(None), // nothing listens there
            Ok(Err(false)) | Err(_) => Err(AdminClientError::Silent { url: url() }),
        }
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
