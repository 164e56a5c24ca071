//! Encrypted connections to PostgreSQL (libpq's `sslmode`).

use petstore_testkit::{
    Authority, Installation,
    servers::{PostgresOptions, PostgresServer},
};
use serde_json::json;

use crate::{key_of_new_account, pets::created, petstore, serve};

/// Query that shows if the service's connections are encrypted, one a line.
const ENCRYPTED: &str = "SELECT DISTINCT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
                         WHERE application_name = 'petstore' AND datname = current_database()";

#[tokio::test]
async fn connections_to_postgresql_are_encrypted_and_its_certificate_verified() {
    let authority = Authority::new();
    let postgres = PostgresServer::start(with_certificate(&authority, "127.0.0.1")).await;
    let database = postgres.database().await;
    for mode in ["require".to_owned(), format!("verify-full&sslrootcert={}", authority.file())] {
        let installation = at(&format!("{}?sslmode={mode}", database.url()));
        let server = installation.start(&serve(&[])).await;
        let client = server.client(&key_of_new_account(&installation).await);
        created(&client.post("/v1/pets", &json!({"name": "Rex", "categoryId": 1})).await);
        assert_eq!(database.psql(ENCRYPTED).await, "t", "{mode}");
        server.terminate().await;
        database.psql("DELETE FROM api_keys; DELETE FROM accounts").await;
    }
}

#[tokio::test]
async fn a_certificate_of_another_authority_or_for_another_host_is_refused() {
    let (authority, other) = (Authority::new(), Authority::new());
    let postgres = PostgresServer::start(with_certificate(&authority, "db.example")).await;
    let url = postgres.database().await.url();
    let mode =
        |mode: &str, authority: &Authority| format!("{url}?sslmode={mode}&sslrootcert={}", authority.file());
    for refused in [mode("verify-full", &authority), mode("verify-full", &other), mode("verify-ca", &other)] {
        at(&refused).run(&["migrate", "up"]).await.assert_refused(1, &[UNREACHABLE]);
    }
    let accepted = at(&mode("verify-ca", &authority)).run(&["migrate", "up"]).await;
    assert_eq!(accepted.code, Some(0), "{accepted:?}");
}

#[tokio::test]
async fn a_server_without_tls_is_refused_if_tls_is_required() {
    let database = PostgresServer::shared().await.database().await;
    at(&format!("{}?sslmode=require", database.url()))
        .run(&["migrate", "up"])
        .await
        .assert_refused(1, &[UNREACHABLE]);
}

/// Start of the line about a server that cannot be reached.
const UNREACHABLE: &str = "PETSTORE_DATABASE_URL: cannot reach PostgreSQL at 127.0.0.1:";

fn with_certificate(authority: &Authority, host: &str) -> PostgresOptions {
    let certificate = authority.issue(host);
    PostgresOptions { certificate: Some((certificate.pem, certificate.key)), ..PostgresOptions::default() }
}

fn at(url: &str) -> Installation {
    petstore().with_variable("PETSTORE_DATABASE_URL", url)
}
