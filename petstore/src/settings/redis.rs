//! Where Redis is.

use std::path::PathBuf;

use petstore_gateway::rate_limit::{RedisLimiter, RedisSettings as Servers, RedisSetupError, RedisUrl};

use super::{
    InvalidSetting,
    secret_url::{self, SecretUrl},
};

/// Where Redis is, if gateways count in one.
#[derive(Clone, Debug, clap::Args)]
pub struct RedisSettings {
    /// The Redis that all gateways count in: `redis://HOST:PORT/DATABASE`, or `rediss://` for TLS; the nodes of a
    /// Redis Cluster, if it is repeated or, in the variable, separated by commas. Without it requests are counted in
    /// this process. A URL with a password is taken from the variable or from --redis-url-file only
    #[arg(
        long,
        env = "PETSTORE_REDIS_URL",
        hide_env_values = true,
        value_delimiter = ',',
        value_parser = SecretUrl::<RedisUrl>::of("redis-url"),
        value_name = "URL"
    )]
    pub redis_url: Vec<RedisUrl>,

    /// A file that holds Redis's URL, or those of a Cluster's nodes, one a line; nobody but its owner may have access
    /// to it (mode 0600)
    #[arg(long, env = "PETSTORE_REDIS_URL_FILE", conflicts_with = "redis_url", value_name = "FILE")]
    pub redis_url_file: Option<PathBuf>,
}

impl RedisSettings {
    /// Where Redis is, from the file if one is given. Nothing without Redis.
    ///
    /// # Errors
    ///
    /// When the file cannot be read, is open to others or holds something else.
    pub fn urls(&self) -> Result<Vec<RedisUrl>, InvalidSetting> {
        match &self.redis_url_file {
            None => Ok(self.redis_url.clone()),
            Some(file) => {
                secret_url::read(file).map_err(|reason| InvalidSetting::new("--redis-url-file", reason))
            }
        }
    }

    /// The limiter that counts there, if there is a Redis. It has not connected yet.
    pub(super) fn limiter_by(
        &self,
        make: impl FnOnce(Servers) -> Result<RedisLimiter, RedisSetupError>,
    ) -> Result<Option<RedisLimiter>, InvalidSetting> {
        let urls = self.urls()?;
        if urls.is_empty() {
            return Ok(None);
        }
        let limiter = make(Servers { urls });
        limiter.map(Some).map_err(|error| InvalidSetting::new("--redis-url", error.to_string()))
    }
}
