//! Encrypted connections to Redis (`rediss://`).

use petstore_testkit::{
    Authority, Installation, Server,
    servers::{RedisOptions, RedisServer},
};

use super::{is_counted_in_redis, limiter_is};
use crate::{first_client, petstore, serve};

#[tokio::test]
async fn requests_are_counted_in_a_redis_whose_certificate_is_trusted() {
    let authority = Authority::new();
    let redis = with_certificate(&authority).await;
    let (installation, server) = start(&redis, &authority).await;
    limiter_is(&server, "ok").await;
    is_counted_in_redis(&first_client(&installation, &server)).await;
    assert_ne!(redis.cli(&["DBSIZE"]).await, "0");
}

#[tokio::test]
async fn no_request_is_counted_in_a_redis_whose_certificate_is_not_trusted() {
    let redis = with_certificate(&Authority::new()).await;
    let (installation, server) = start(&redis, &Authority::new()).await;
    limiter_is(&server, "degraded").await;
    let answer = first_client(&installation, &server).get("/v1/pets").await;
    assert_eq!(answer.header("X-RateLimit-Scope"), "node", "{answer:?}");
    assert_eq!(redis.cli(&["DBSIZE"]).await, "0");
}

async fn with_certificate(authority: &Authority) -> RedisServer {
    let certificate = authority.issue("127.0.0.1");
    let certificate = Some((certificate.pem, certificate.key));
    RedisServer::start(RedisOptions { certificate, ..RedisOptions::default() }).await
}

/// Starts the service, which trusts one authority.
async fn start(redis: &RedisServer, trusted: &Authority) -> (Installation, Server) {
    let installation = petstore().with_variable("SSL_CERT_FILE", &trusted.file());
    let url = format!("rediss://{}", redis.tls_address());
    let server = installation.start(&serve(&["--redis-url", &url])).await;
    (installation, server)
}
