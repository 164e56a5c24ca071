//! A tower layer that limits the requests of each account, before any HTTP service, over Redis.
//!
//! `cargo run -p petstore-rate-limit --example tower_layer -- redis://127.0.0.1:6379` sends five requests of
//! an account that may send three in a minute.

use std::{
    error::Error,
    num::NonZeroU16,
    sync::Arc,
    task::{Context, Poll},
};

use futures_util::future::BoxFuture;
use http::{Request, Response, StatusCode, header::RETRY_AFTER};
use petstore_clock::{Clock, UnixMillis};
use petstore_rate_limit::{
    LimitKey, OnRedisFailure, Quota, RateLimiter, RedisDeadlines, RedisLimiter, RedisSettings,
    ResilientLimiter,
};
use tower::{Layer, Service, ServiceExt, layer::layer_fn, service_fn};

const QUOTA: Quota = Quota { per_minute: 3, per_day: 1_000 };

/// Service that answers 429 in place of `inner` to requests beyond the quota of their account.
#[derive(Clone)]
struct Limited<S> {
    inner: S,
    limiter: Arc<dyn RateLimiter>,
}

impl<S, B> Service<Request<B>> for Limited<S>
where
    S: Service<Request<B>, Response = Response<String>> + Clone + Send + 'static,
    S::Future: Send,
    B: Send + 'static,
{
    type Response = Response<String>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let ready = self.inner.clone();
        let (mut inner, limiter) = (std::mem::replace(&mut self.inner, ready), Arc::clone(&self.limiter));
        Box::pin(async move {
            // A real service takes the account from the verified credential.
            let account = request.extensions().get::<i64>().copied().unwrap_or_default();
            let Ok(decision) = limiter.take(&LimitKey::Account(account), QUOTA, UnixMillis(0)).await else {
                return Ok(refusal(StatusCode::SERVICE_UNAVAILABLE, 1));
            };
            match decision.retry_after_secs() {
                None => inner.call(request).await,
                Some(secs) => Ok(refusal(StatusCode::TOO_MANY_REQUESTS, secs)),
            }
        })
    }
}

fn refusal(status: StatusCode, retry_after_secs: u64) -> Response<String> {
    let mut response = Response::new(String::new());
    *response.status_mut() = status;
    response.headers_mut().insert(RETRY_AFTER, retry_after_secs.into());
    response
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "redis://127.0.0.1:6379".into());
    let (urls, deadlines) = (vec![url.parse()?], RedisDeadlines::default());
    let redis = RedisLimiter::new(RedisSettings { urls, key_prefix: "example:", deadlines, clock: None })?;
    redis.set_installation("demo");
    let (on_failure, gateways) = (OnRedisFailure::Local, NonZeroU16::MIN);
    let limiter = Arc::new(ResilientLimiter::start(redis, on_failure, gateways, Clock::system(), "").await);
    // Returns to Redis after an outage.
    tokio::spawn(Arc::clone(&limiter).watch(Box::pin(std::future::pending())));

    let layer = layer_fn(|inner| Limited { inner, limiter: limiter.clone() });
    let greet = service_fn(async |_: Request<()>| Ok::<_, Box<dyn Error>>(Response::new("hello".to_owned())));
    let service = layer.layer(greet);
    for _ in 0..5 {
        let mut request = Request::new(());
        request.extensions_mut().insert(7_i64);
        let response = service.clone().oneshot(request).await?;
        println!("{} {:?}", response.status(), response.headers().get(RETRY_AFTER));
    }
    Ok(())
}
