//! Authentication of callers of the gRPC port.

use petstore_proto::internal::v1::{ListChangesRequest, key_service_client::KeyServiceClient};
use petstore_testkit::{
    Authority, TestShop,
    grpc::{self, Channel, Code, Request, ServingStatus, Status, pb::ListPetsRequest},
    raw,
};

use crate::petstore;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

#[tokio::test]
async fn without_the_service_token_nothing_but_health_is_served() {
    let authority = Authority::new();
    let shop = TestShop::open_with(&["--service-token-file", &authority.keep_token(TOKEN)]).await;
    let channel = grpc::channel(shop.grpc_addr()).await;
    assert_only_health_is_served(&channel).await;
    let longer = format!("Bearer {TOKEN}0");
    let wrong =
        ["", "Bearer", "Bearer ", "Bearer 0", TOKEN, &longer, "Basic 0123456789abcdef0123456789abcdef"];
    for credential in wrong {
        let refusal = list_with(&channel, &[credential]).await.unwrap_err();
        assert_eq!(refusal.code(), Code::Unauthenticated, "{credential:?}: {refusal:?}");
    }
    let right = format!("Bearer {TOKEN}");
    let refusal = list_with(&channel, &[&right, &right]).await.unwrap_err();
    assert_eq!(refusal.code(), Code::Unauthenticated, "twice: {refusal:?}");
    for credential in [&right, &format!("bearer {TOKEN}")] {
        list_with(&channel, &[credential]).await.unwrap();
    }
}

#[tokio::test]
async fn without_a_certificate_of_the_authority_nothing_but_health_is_served() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let server = authority.issue("127.0.0.1");
    let files = ["--tls-cert", &server.file, "--tls-key", &server.key_file];
    let shop =
        TestShop::open_with(&[files.as_slice(), &["--tls-client-ca", &authority.file()]].concat()).await;
    let address = shop.grpc_addr();

    let anonymous = grpc::tls_channel(address, &authority, None).await.unwrap();
    assert_only_health_is_served(&anonymous).await;
    let known = authority.issue("gateway");
    let channel = grpc::tls_channel(address, &authority, Some(&known)).await.unwrap();
    list_with(&channel, &[]).await.unwrap();

    // The server's refusal arrives after the client's part of the handshake: with the connection, or the
    // first call.
    let forged = stranger.issue("gateway");
    if let Ok(channel) = grpc::tls_channel(address, &authority, Some(&forged)).await {
        list_with(&channel, &[]).await.unwrap_err();
        grpc::health_over(channel, "").await.unwrap_err();
    }
    grpc::tls_channel(address, &stranger, Some(&known)).await.expect_err("a server of another authority");
    let plain = grpc::channel(address).await;
    list_with(&plain, &[]).await.expect_err("a call without TLS");
}

#[tokio::test]
async fn a_caller_that_does_not_begin_the_handshake_is_closed_and_delays_no_other() {
    let authority = Authority::new();
    let server = authority.issue("127.0.0.1");
    let shop = TestShop::open_with(&["--tls-cert", &server.file, "--tls-key", &server.key_file]).await;
    let mut silent = Vec::new();
    for _ in 0..50 {
        silent.push(raw::connect(shop.grpc_addr()).await);
    }
    let channel = grpc::tls_channel(shop.grpc_addr(), &authority, None).await.unwrap();
    assert_eq!(grpc::health_over(channel, "").await.unwrap(), ServingStatus::Serving);
    for mut connection in silent {
        assert_eq!(raw::read_to_end(&mut connection).await, b"");
    }
}

#[tokio::test]
async fn certificate_and_token_are_both_needed_if_both_are_required() {
    let authority = Authority::new();
    let server = authority.issue("127.0.0.1");
    let token_file = authority.keep_token(TOKEN);
    let shop = TestShop::open_with(&[
        "--tls-cert",
        &server.file,
        "--tls-key",
        &server.key_file,
        "--tls-client-ca",
        &authority.file(),
        "--service-token-file",
        &token_file,
    ])
    .await;
    let right = format!("Bearer {TOKEN}");
    let gateway = authority.issue("gateway");
    let known = grpc::tls_channel(shop.grpc_addr(), &authority, Some(&gateway)).await.unwrap();
    let anonymous = grpc::tls_channel(shop.grpc_addr(), &authority, None).await.unwrap();
    list_with(&known, &[&right]).await.unwrap();
    assert_eq!(list_with(&known, &[]).await.unwrap_err().code(), Code::Unauthenticated);
    assert_eq!(list_with(&anonymous, &[&right]).await.unwrap_err().code(), Code::Unauthenticated);
}

#[tokio::test]
async fn an_address_that_other_machines_can_reach_needs_protection() {
    let installation = petstore();
    let open = ["core", "--grpc-addr", "0.0.0.0:0", "--admin-addr", "127.0.0.1:0"];
    let exit = installation.run(&open).await;
    assert_eq!(exit.code, Some(2), "{exit:?}");
    assert!(exit.stderr.contains("--grpc-addr") && exit.stderr.contains("--service-token-file"), "{exit:?}");
    assert!(!installation.folder().join("data").exists(), "a store was made for nothing");

    let authority = Authority::new();
    let server = authority.issue("127.0.0.1");
    let encrypted = [open.as_slice(), &["--tls-cert", &server.file, "--tls-key", &server.key_file]].concat();
    let exit = installation.run(&encrypted).await;
    assert_eq!(exit.code, Some(2), "encrypted, but still for anybody: {exit:?}");

    let (token, trusted) = (authority.keep_token(TOKEN), authority.file());
    for flags in [
        [open.as_slice(), &["--service-token-file", &token]].concat(),
        [encrypted.as_slice(), &["--tls-client-ca", &trusted]].concat(),
        [open.as_slice(), &["--insecure-allow-remote"]].concat(),
    ] {
        installation.start(&flags).await.terminate().await;
    }
}

async fn assert_only_health_is_served(channel: &Channel) {
    assert_eq!(grpc::health_over(channel.clone(), "").await.unwrap(), ServingStatus::Serving);
    let keys =
        KeyServiceClient::new(channel.clone()).list_changes(ListChangesRequest { after_revision: 0 }).await;
    for refusal in [
        list_with(channel, &[]).await.expect_err("PetStore"),
        keys.expect_err("KeyService"),
        grpc::services(channel.clone()).await.expect_err("reflection"),
        grpc::services_alpha(channel.clone()).await.expect_err("reflection v1alpha"),
    ] {
        assert_eq!(refusal.code(), Code::Unauthenticated, "{refusal:?}");
        assert!(!refusal.message().is_empty(), "{refusal:?}");
    }
}

/// Calls `ListPets` with these `authorization` fields.
async fn list_with(channel: &Channel, credentials: &[&str]) -> Result<(), Status> {
    let mut request = Request::new(ListPetsRequest::default());
    for credential in credentials {
        request.metadata_mut().append("authorization", credential.parse().unwrap());
    }
    grpc::pb::pet_store_client::PetStoreClient::new(channel.clone()).list_pets(request).await.map(drop)
}
