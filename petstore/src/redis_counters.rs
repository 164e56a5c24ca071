//! What the verbs see and change of the counters in Redis.

use petstore_core::accounts::{Account, KeyId};
use petstore_gateway::limit::{
    Ban, LimiterUnavailable, Quota, RateLimiter, RedisFault, RedisLimiter, Standing, Subject,
};

use crate::{
    error::Failure,
    settings::{InvalidSetting, RedisSettings},
};

/// How often a question is asked: its deadline is that of a request, which a machine at work may miss.
const ATTEMPTS: usize = 3;

/// The counters in Redis, which answered.
#[derive(Debug)]
pub(crate) struct RedisCounters(RedisLimiter);

/// Redis cannot be asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RedisCountersError {
    #[error(transparent)]
    Setting(#[from] InvalidSetting),
    #[error("--redis-url: {}", .0.map_or_else(|| LimiterUnavailable.to_string(), |fault| fault.to_string()))]
    Away(Option<RedisFault>),
}

impl RedisCounters {
    /// Those that gateways count in, if it is Redis where they do.
    pub(crate) async fn connect(settings: &RedisSettings) -> Result<Option<Self>, Failure> {
        let Some(limiter) = settings.limiter().map_err(RedisCountersError::from)? else { return Ok(None) };
        match limiter.probe().await {
            Ok(_) => Ok(Some(Self(limiter))),
            Err(LimiterUnavailable) => Err(RedisCountersError::Away(limiter.last_fault()).into()),
        }
    }

    /// How an account stands, or a key of it.
    pub(crate) async fn standing(&self, account: &Account, key: Option<KeyId>) -> Result<Standing, Failure> {
        let (subject, quota) = (subject(account, key), quota(account));
        self.patiently(async || self.0.inspect(&subject, quota).await).await
    }

    /// Bans a key for so long from now on, by Redis's time, or lifts its ban.
    pub(crate) async fn set_ban(
        &self,
        account: &Account,
        key: KeyId,
        ban: Option<Ban>,
    ) -> Result<(), Failure> {
        let subject = subject(account, Some(key));
        self.patiently(async || self.0.set_ban(&subject, ban).await).await
    }

    async fn patiently<T>(
        &self,
        mut ask: impl AsyncFnMut() -> Result<T, LimiterUnavailable>,
    ) -> Result<T, Failure> {
        for _ in 1..ATTEMPTS {
            if let Ok(answer) = ask().await {
                return Ok(answer);
            }
        }
        ask().await.map_err(|_| RedisCountersError::Away(self.0.last_fault()).into())
    }
}

/// Whose counters they are.
pub(crate) fn subject(account: &Account, key: Option<KeyId>) -> Subject {
    let account_id = account.id.0;
    match key {
        Some(key) => Subject::Key { account_id, key_id: key.to_string().into() },
        None => Subject::Account(account_id),
    }
}

/// What the account may ask for, as the gateway names it.
pub(crate) fn quota(account: &Account) -> Quota {
    let quota = account.plan.quota();
    Quota { per_minute: quota.per_minute, per_day: quota.per_day }
}
