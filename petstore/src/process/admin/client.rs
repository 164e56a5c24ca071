//! Client of the admin port, for `petstore health`.

use std::{fmt, str::FromStr, time::Duration};

use axum::{
    body::{Body, to_bytes},
    http::{StatusCode, Uri},
};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use serde_json::Value;
use tokio::time::timeout;

/// Deadline of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
/// Upper bound of an answer, in bytes.
const MAX_ANSWER: usize = 64 * 1024;

/// URL of the form `http://HOST:PORT`.
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

/// Settings that name the admin port of a process.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct AdminUrlSettings {
    /// The admin port of the process
    #[arg(long, env = "PETSTORE_ADMIN_URL", default_value = "http://127.0.0.1:9090", value_name = "URL")]
    pub(crate) admin_url: AdminUrl,
}

/// Reason why the admin port gave no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AdminPortError {
    #[error("--admin-url: no answer from {url} in time")]
    Silent { url: AdminUrl },
    #[error("--admin-url: nothing answers at {url}; is the service running?")]
    Unreachable { url: AdminUrl },
}

/// Client of the admin port.
#[derive(Debug)]
pub(crate) struct AdminPortClient<'a> {
    url: &'a AdminUrl,
    http: Client<HttpConnector, Body>,
}

impl<'a> AdminPortClient<'a> {
    pub(crate) fn new(url: &'a AdminUrl) -> Self {
        Self { url, http: Client::builder(TokioExecutor::new()).build_http() }
    }

    /// Returns `true` if the process is ready for requests, and the answer of `/readyz`, which is JSON or
    /// else null.
    pub(crate) async fn readiness(&self) -> Result<(bool, Value), AdminPortError> {
        let url = || self.url.clone();
        let exchange = async {
            let path =
                format!("{}/readyz", self.url).parse().map_err(|_| AdminPortError::Silent { url: url() })?;
            let response = self.http.get(path).await.map_err(|error| {
                if error.is_connect() {
                    AdminPortError::Unreachable { url: url() }
                } else {
                    AdminPortError::Silent { url: url() }
                }
            })?;
            let is_ready = response.status() == StatusCode::OK;
            let body = to_bytes(Body::new(response.into_body()), MAX_ANSWER).await;
            let body = body.map_err(|_| AdminPortError::Silent { url: url() })?;
            Ok((is_ready, serde_json::from_slice(&body).unwrap_or_default()))
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
