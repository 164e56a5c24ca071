//! Requirements of gRPC itself, and calls that do not have its form.

use std::time::Duration;

use petstore_testkit::{
    TestShop,
    grpc::{
        self, Code, Request, ServingStatus, Status, assert_refused, new_pet, pb::CreatePetRequest, raw_call,
    },
};
use tokio::{task::JoinSet, time::timeout};

use super::pets::contract;
use crate::{petstore, serve};

const LIST_PETS: &str = "/petstore.v1.PetStore/ListPets";
const GRPC: (&str, &str) = ("content-type", "application/grpc");
const REQUEST_ID: (&str, &str) = ("x-request-id", "of-this-call");
/// An empty message.
const EMPTY: &[u8] = &[0, 0, 0, 0, 0];
/// The first half of a message.
const HALF: &[u8] = &[0, 0, 0, 0, 8, 0x12, 0x06, b'x', b'x'];
/// Tag of the extension `google.api.field_behavior`, number 1052.
const FIELD_BEHAVIOR: &[u8] = &[0xE2, 0x41];
/// A message whose one field is longer than the message.
const BROKEN: &[u8] = &[0, 0, 0, 0, 2, 0x12, 0x7F];

#[tokio::test]
async fn a_call_without_the_form_of_grpc_is_refused_with_a_reason() {
    let shop = TestShop::open().await;
    let channel = grpc::channel(shop.grpc_addr()).await;
    let gzip = ("grpc-encoding", "gzip");
    for (path, field, message, code, reason) in [
        (LIST_PETS, GRPC, BROKEN, Code::InvalidArgument, "INVALID_REQUEST"),
        (LIST_PETS, GRPC, b"", Code::InvalidArgument, "INVALID_REQUEST"),
        (LIST_PETS, GRPC, &[0, 0, 0, 0, 9], Code::InvalidArgument, "INVALID_REQUEST"),
        (LIST_PETS, GRPC, &[0; 10], Code::InvalidArgument, "INVALID_REQUEST"), // two messages
        (LIST_PETS, GRPC, &[1, 0, 0, 0, 0], Code::InvalidArgument, "INVALID_REQUEST"),
        (LIST_PETS, gzip, EMPTY, Code::Unimplemented, "UNSUPPORTED_MEDIA_TYPE"),
        ("/petstore.v1.PetStore/Nothing", GRPC, EMPTY, Code::Unimplemented, "ROUTE_NOT_FOUND"),
        ("/petstore.v1.Nothing/ListPets", GRPC, EMPTY, Code::Unimplemented, "ROUTE_NOT_FOUND"),
        ("/petstore.admin.v1.AdminService/Nothing", GRPC, EMPTY, Code::Unimplemented, "ROUTE_NOT_FOUND"),
        (LIST_PETS, ("grpc-timeout", "5"), EMPTY, Code::InvalidArgument, "INVALID_REQUEST"),
        (LIST_PETS, ("grpc-timeout", "S"), EMPTY, Code::InvalidArgument, "INVALID_REQUEST"),
        (LIST_PETS, ("grpc-timeout", "123456789S"), EMPTY, Code::InvalidArgument, "INVALID_REQUEST"),
        (LIST_PETS, ("grpc-timeout", "+1S"), EMPTY, Code::InvalidArgument, "INVALID_REQUEST"),
        (LIST_PETS, ("grpc-timeout", "1s"), EMPTY, Code::InvalidArgument, "INVALID_REQUEST"),
    ] {
        let fields = if field == GRPC { vec![GRPC, REQUEST_ID] } else { vec![GRPC, REQUEST_ID, field] };
        let answer = raw_call(channel.clone(), path, &fields, message).await;
        let status = Status::from_header_map(&answer.headers).expect("a status instead of an answer");
        assert!(!status.message().is_empty(), "{path} {field:?}");
        assert_eq!(grpc::request_info(&status).as_deref(), Some(REQUEST_ID.1), "{path} {field:?} {status:?}");
        assert_refused(Err::<(), _>(status), code, reason);
        if field == gzip {
            assert_eq!(answer.headers["grpc-accept-encoding"], "identity");
        }
    }
    let timeout = ("grpc-timeout", "99999999M");
    let answer = raw_call(channel, LIST_PETS, &[GRPC, timeout], EMPTY).await;
    assert!(Status::from_header_map(&answer.headers).is_none(), "{answer:?}");
    let metrics = shop.admin().get("/metrics").await.text().to_owned();
    let series = r#"petstore_rpc_failures_total{code="INVALID_REQUEST",rpc_method="ListPets"} 10"#;
    assert!(metrics.lines().any(|line| line == series), "{metrics}");
}

#[tokio::test]
async fn a_message_that_is_too_large_is_refused_with_a_reason_and_the_limit() {
    let shop = TestShop::open().await;
    let pet = Some(new_pet("x".repeat(256 * 1024), Some(1), 0));
    let mut call = Request::new(CreatePetRequest { pet, ..Default::default() });
    call.metadata_mut().insert(REQUEST_ID.0, REQUEST_ID.1.parse().unwrap());
    let refusal = grpc::pet_store(shop.grpc_addr()).await.create_pet(call).await.unwrap_err();
    assert!(refusal.message().contains("262144 bytes"), "{refusal:?}");
    assert_eq!(grpc::request_info(&refusal).as_deref(), Some(REQUEST_ID.1));
    assert_refused(Err::<(), _>(refusal), Code::OutOfRange, "BODY_TOO_LARGE");
}

#[tokio::test]
async fn a_request_of_another_media_type_is_415_so_that_no_http_client_takes_it_for_success() {
    let shop = TestShop::open().await;
    let channel = grpc::channel(shop.grpc_addr()).await;
    let no_type = ("x-other", "1");
    let types = ["application/json", "application/grpcx", "application/grpc-web", "text/plain", ""];
    for field in types.map(|media_type| ("content-type", media_type)).into_iter().chain([no_type]) {
        let answer = raw_call(channel.clone(), LIST_PETS, &[field], EMPTY).await;
        assert_eq!(
            (answer.status.as_u16(), &answer.headers["accept"]),
            (415, &"application/grpc".parse().unwrap())
        );
        assert!(!answer.headers.contains_key("grpc-status"), "{answer:?}");
    }
    for media_type in ["application/grpc", "application/grpc+proto", "Application/gRPC;x=y"] {
        let answer = raw_call(channel.clone(), LIST_PETS, &[("content-type", media_type)], EMPTY).await;
        assert_eq!(answer.status, 200, "{media_type}");
        assert!(Status::from_header_map(&answer.headers).is_none(), "{answer:?}");
    }
}

#[tokio::test]
async fn only_post_makes_a_call() {
    let shop = TestShop::open().await;
    let channel = grpc::channel(shop.grpc_addr()).await;
    for method in ["GET", "PUT", "OPTIONS", "HEAD"] {
        let (status, of_call) = grpc::ended_call(channel.clone(), method, LIST_PETS, EMPTY).await;
        assert!(status == 405 && of_call.is_none(), "{method}: {status} {of_call:?}");
    }
    let (_, of_call) = grpc::ended_call(channel, "POST", LIST_PETS, EMPTY).await;
    assert_eq!(of_call.unwrap().code(), Code::Ok);
}

#[tokio::test]
async fn reflection_refuses_a_broken_message() {
    let shop = TestShop::open().await;
    let channel = grpc::channel(shop.grpc_addr()).await;
    for version in ["v1", "v1alpha"] {
        let path = format!("/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo");
        let (_, of_call) = grpc::ended_call(channel.clone(), "POST", &path, BROKEN).await;
        assert_eq!(of_call.unwrap().code(), Code::Internal, "{path}"); // as tonic reports it
    }
}

#[tokio::test]
async fn a_watcher_of_an_unknown_service_learns_so_and_stays_until_the_server_stops() {
    let installation = petstore();
    let server = installation.start(&serve(&[])).await;
    let channel = grpc::channel(server.address("gRPC")).await;
    let mut updates = grpc::watch_health(channel, "petstore.v1.Nothing").await.unwrap();
    assert_eq!(updates.message().await.unwrap().unwrap().status(), ServingStatus::ServiceUnknown);
    let next = timeout(Duration::from_millis(200), updates.message()).await;
    assert!(next.is_err(), "the stream is not open any more: {next:?}");
    let (end, _) = tokio::join!(updates.message(), server.terminate());
    assert_eq!(end.unwrap(), None);
}

#[tokio::test]
async fn a_deadline_that_passes_before_the_message_has_arrived_has_the_code_and_a_reason() {
    let shop = TestShop::open().await;
    let raw = grpc::RawCalls::to(shop.grpc_addr()).await;
    let mut calls = JoinSet::new();
    for (service, methods) in contract() {
        for path in methods.into_iter().map(|method| format!("/{service}/{method}")) {
            for (timeout, sent) in [("1m", b"".as_slice()), ("300m", b""), ("300m", &[0, 0]), ("300m", HALF)]
            {
                let (raw, path) = (raw.clone(), path.clone());
                calls.spawn(async move {
                    let fields = [("grpc-timeout", timeout), REQUEST_ID];
                    (raw.unfinished(&path, &fields, sent).await, path)
                });
            }
        }
    }
    let ends = calls.join_all().await;
    assert!(ends.len() > 100, "{}", ends.len());
    for (status, path) in ends {
        println!("{path}");
        assert_eq!(grpc::request_info(&status).as_deref(), Some(REQUEST_ID.1), "{status:?}");
        assert_refused(Err::<(), _>(status), Code::DeadlineExceeded, "DEADLINE_EXCEEDED");
    }
}

#[tokio::test]
async fn reflection_answers_about_each_symbol_and_what_is_unknown_ends_no_stream() {
    let shop = TestShop::open().await;
    let channel = grpc::channel(shop.grpc_addr()).await;
    let known = [
        "google.rpc.ErrorInfo",
        "google.rpc.BadRequest",
        "google.rpc.RetryInfo",
        "google.rpc.RequestInfo",
        "google.rpc.Help",
        "petstore.v1.PetStore.ListPets",
        "petstore.v1.PetStatus",
        "petstore.v1.PET_STATUS_SOLD",
        "grpc.health.v1.HealthCheckResponse.SERVING",
    ];
    let unknown =
        ["", "google.rpc.Nothing", "petstore.v1.PET_STATUS_EATEN", "petstore.internal.v1.KeyService"];
    let symbols: Vec<_> =
        known.into_iter().zip(unknown.into_iter().cycle()).flat_map(<[_; 2]>::from).collect();
    for answers in [
        grpc::described(channel.clone(), &symbols).await.unwrap(),
        grpc::described_alpha(channel, &symbols).await.unwrap(),
    ] {
        assert_eq!(answers.len(), symbols.len());
        for (symbol, answer) in symbols.iter().zip(&answers) {
            let is_right =
                if known.contains(symbol) { answer.is_ok() } else { *answer == Err(Code::NotFound) };
            assert!(is_right, "{symbol}: {answer:?}");
        }
        // Options that are extensions are there, too: the file is as it was compiled.
        let (file, compiled) = (answers[10].as_ref().unwrap(), petstore_proto::FILE_DESCRIPTOR_SET);
        assert!(file.windows(2).any(|tag| tag == FIELD_BEHAVIOR), "no field_behavior");
        assert!(compiled.windows(file.len()).any(|part| part == file), "another file");
    }
}
