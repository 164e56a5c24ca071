//! Parts of a gateway that its admin port shows and uses.

use std::net::IpAddr;

use http::{HeaderMap, HeaderValue};
use petstore_clock::UnixMillis;
use petstore_core_client::TracedTransport;
use petstore_rate_limit::{LimitKey, Quota};
use serde_json::{Map, Value};

use crate::{error::ApiError, gateway::Gateway, json::usage::limit_status, pipeline, request_id::request_id};

impl Gateway {
    /// Returns the name of a request in the logs: the sender's own if that is fit for a log, otherwise a new
    /// one.
    pub fn name_request(&self, headers: &HeaderMap) -> HeaderValue {
        request_id(headers, &self.state().clock).as_header().clone()
    }

    /// Returns the address of the client of a request that came from `peer`, which may be a trusted proxy.
    pub fn client_of(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        self.state().settings.trusted_proxies.client_ip(peer, headers)
    }

    /// Returns the transport of calls to the core that are not made for a client.
    pub fn core(&self) -> &TracedTransport {
        self.state().core.client().transport()
    }

    /// Returns the used part of an account's limits as JSON, and counts nothing.
    ///
    /// # Errors
    ///
    /// If the limiter is not available.
    pub async fn account_limits(
        &self,
        account_id: i64,
        quota: Quota,
    ) -> Result<Map<String, Value>, ApiError> {
        let key = LimitKey::Account(account_id);
        Ok(limit_status(&self.state().limiter.inspect(&key, quota, UnixMillis(0)).await?))
    }

    /// Returns the used part of the limits of a key's account, and the key's strikes and ban, as JSON. Counts
    /// nothing.
    ///
    /// # Errors
    ///
    /// If the core does not know the key or does not answer, or the limiter is not available.
    pub async fn key_limits(&self, key_id: &str) -> Result<Map<String, Value>, ApiError> {
        let key = self.state().keys.find(key_id).await?;
        Ok(limit_status(&pipeline::limit_status(self.state(), &key).await?))
    }
}
