//! Encrypted connections to Redis (`rediss://`).

use petstore_testkit::{
    Authority, Installation, Server,
    servers::{RedisOptions, RedisServer},
};

use crate::{PORTS, first_client, petstore, redis_operation::says, redis_outages::is_counted_in_redis};

#[tokio::test]
async fn requests_are_counted_in_a_redis_whose_certificate_is_trusted() {
    let authority = Authority::new();
    let redis = with_certificate(&authority).await;
    let (installation, server) = serve(&redis, &authority).await;
    says(&server, "ok").await;
    is_counted_in_redis(&first_client(&installation, &server)).await;
    assert_ne!(redis.cli(&["DBSIZE"]).await, "0");
}

#[tokio::test]
async fn no_request_is_counted_in_a_redis_whose_certificate_is_not_trusted() {
    let redis = with_certificate(&Authority::new()).await;
    let (installation, server) = serve(&redis, &Authority::new()).await;
    says(&server, "degraded").await;
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
async fn serve(redis: &RedisServer, trusted: &Authority) -> (Installation, Server) {
    let installation = petstore().with_variable("SSL_CERT_FILE", &trusted.file());
    let url = format!("rediss://{}", redis.tls_address());
    let server = installation.start(&[["serve", "--redis-url", &url].as_slice(), &PORTS].concat()).await;
    (installation, server)
}
