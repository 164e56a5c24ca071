//! Bounds that keep one caller of the gRPC port from harming all others.

use std::time::Duration;

use petstore_testkit::{
    Client, Plan, TestShop, eventually,
    grpc::{self, Code, ServingStatus, Status, pb},
};
use serde_json::json;
use tokio::{
    task::JoinSet,
    time::{Instant, timeout},
};

use crate::{memory, petstore, serve};

/// Maximum number of concurrent calls on one connection.
const MOST_STREAMS: usize = 256;
/// Maximum number of open imports, over all connections.
const MOST_IMPORTS: usize = 16;
/// Maximum number of open watches of health on one connection.
const MOST_WATCHES: usize = 31;
/// Idle timeout of an import.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout of a call's message.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout longer than that, for a busy machine.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout that is enough for the messages of hundreds of calls. It is not longer than the timeout of each
/// message of a stream, which these calls do not have.
const ALL_ENDED_TIMEOUT: Duration = Duration::from_secs(30);
/// Timeout of a notification by the change feed, on a busy machine.
const FEED_TIMEOUT: Duration = Duration::from_secs(15);
/// Memory of the calls of two connections, 16 MiB each, and of what the allocator has not returned yet. That
/// is two thirds of what the calls below take without a bound.
const MAX_GROWTH: u64 = 192 << 20;

#[tokio::test]
async fn idle_imports_leave_capacity_to_gateways_and_other_callers() {
    let shop = TestShop::open_apart(2).await; // the second gateway calls the same port
    let account = shop.account_on(Plan::Business).await;
    let (known, revoked) = (shop.client_of(&account).await, shop.client_of(&account).await);
    let at = |gateway, client: &Client| Client::new(gateway).with_key(client.key());
    for gateway in shop.gateways() {
        at(gateway, &revoked).get("/v1/pets").await.assert_status(200);
    }

    let mut imports = JoinSet::new();
    for _ in 0..2 {
        let client = grpc::pet_store(shop.grpc_addr()).await;
        for _ in 0..MOST_STREAMS {
            let mut client = client.clone();
            imports.spawn(async move { client.import_pets(grpc::silence()).await.map(drop) });
        }
    }
    let mut last_refusal = Instant::now();
    while imports.len() > MOST_IMPORTS {
        let end = timeout(ANSWER_TIMEOUT, imports.join_next()).await;
        let end = end.unwrap_or_else(|_| panic!("{} stay open", imports.len()));
        let status = end.unwrap().unwrap().unwrap_err();
        if status.code() == Code::DeadlineExceeded {
            // A busy machine may still refuse when the first ones end because they are idle, and others take
            // their places. If there are no more refusals, the others were all admitted.
            assert!(
                last_refusal.elapsed() < IDLE_TIMEOUT / 2,
                "{} more were open: {status:?}",
                imports.len()
            );
        } else {
            assert_overloaded(&status);
            last_refusal = Instant::now();
        }
    }

    for gateway in shop.gateways() {
        let client = at(gateway, &known); // whose key is looked up now
        client.get("/v1/pets").await.assert_status(200);
        client.post("/v1/pets", &json!({"name": "Rex", "categoryId": 1})).await.assert_status(201);
    }
    shop.revoke(&revoked).await;
    for gateway in shop.gateways() {
        let revoked = at(gateway, &revoked);
        eventually(FEED_TIMEOUT, async || match revoked.get("/v1/pets").await {
            answer if answer.status() == 401 => Ok(()),
            answer => Err(format!("the change feed has not reported it: {answer:?}")),
        })
        .await;
    }
    imports.shutdown().await;
    let message = pb::ImportPetsRequest { import_id: "import-1".into(), ..Default::default() };
    eventually(ANSWER_TIMEOUT, async || {
        let mut client = grpc::pet_store(shop.grpc_addr()).await;
        client.import_pets(grpc::messages(vec![message.clone()])).await.map_err(|error| error.to_string())
    })
    .await;
}

#[tokio::test]
async fn calls_with_an_incomplete_message_time_out_and_free_their_memory() {
    let installation = petstore();
    let server = installation.start(&serve(&[])).await;
    let mut others = grpc::pet_store(server.address("gRPC")).await;
    others.list_pets(pb::ListPetsRequest::default()).await.unwrap();
    let (before, begin) = (memory(&server, "VmRSS"), Instant::now());
    let mut calls = JoinSet::new();
    for _ in 0..2 {
        let channel = grpc::channel(server.address("gRPC")).await;
        for _ in 0..120 {
            let path = "/petstore.v1.PetStore/BatchCreatePets";
            calls.spawn(grpc::unfinished_call(channel.clone(), path, 1_250 * 1024, 1_200 * 1024));
        }
    }
    let (mut overdue, mut overloaded) = (0, 0);
    while let Some(end) = timeout(ALL_ENDED_TIMEOUT, calls.join_next()).await.expect("every call is ended") {
        let status = end.unwrap();
        if status.code() == Code::DeadlineExceeded {
            assert_eq!(grpc::reason(&status), "DEADLINE_EXCEEDED");
            overdue += 1;
        } else {
            assert_overloaded(&status);
            overloaded += 1;
        }
        let grown = memory(&server, "VmRSS").saturating_sub(before);
        assert!(grown < MAX_GROWTH, "{} KiB more are in use", grown >> 10);
        if calls.len().is_multiple_of(10) {
            others.list_pets(pb::ListPetsRequest::default()).await.unwrap();
        }
    }
    assert!((MESSAGE_TIMEOUT..ALL_ENDED_TIMEOUT).contains(&begin.elapsed()), "{:?}", begin.elapsed());
    assert!(overdue >= 10 && overloaded >= 10, "{overdue} were overdue, {overloaded} were too many");
    let metrics = server.admin().get("/metrics").await.text().to_owned();
    for (code, count) in [("DEADLINE_EXCEEDED", overdue), ("OVERLOADED", overloaded)] {
        let series =
            format!(r#"petstore_rpc_failures_total{{code="{code}",rpc_method="BatchCreatePets"}} {count}"#);
        assert!(metrics.lines().any(|line| line == series), "{series}: {metrics}");
    }
}

#[tokio::test]
async fn a_message_that_is_never_ended_costs_its_bytes_not_what_it_would_be_when_parsed() {
    const ENTRIES: usize = 127 * 1024; // of two bytes, which a field would make a hundred
    let installation = petstore();
    let server = installation.start(&serve(&[])).await;
    let head = [&[0][..], &u32::try_from(2 * ENTRIES).unwrap().to_be_bytes()].concat();
    let message = [head, [0x22, 0].repeat(ENTRIES)].concat();
    let (before, mut calls) = (memory(&server, "VmHWM"), JoinSet::new());
    for _ in 0..4 {
        let raw = grpc::RawCalls::to(server.address("gRPC")).await;
        for _ in 0..15 {
            let (raw, message) = (raw.clone(), message.clone());
            let path = "/petstore.internal.v1.UsageService/ReportUsage";
            calls.spawn(async move { raw.unfinished(path, &[], &message).await });
        }
    }
    for status in calls.join_all().await {
        assert_eq!(
            (status.code(), grpc::reason(&status).as_str()),
            (Code::DeadlineExceeded, "DEADLINE_EXCEEDED")
        );
    }
    let grown = memory(&server, "VmHWM") - before;
    assert!(grown < MAX_GROWTH / 2, "{} MiB more were in use", grown >> 20);
}

#[tokio::test]
async fn a_connection_has_a_few_watches_of_health_which_are_refused_to_no_other() {
    let installation = petstore();
    let server = installation.start(&serve(&[])).await;
    let channel = grpc::channel(server.address("gRPC")).await;
    let watch = async |channel| {
        let mut updates = grpc::watch_health(channel, "petstore.v1.PetStore").await?;
        updates.message().await.map_err(Box::new)?;
        Ok::<_, Box<Status>>(updates)
    };
    let mut watches = Vec::new();
    let refusal = loop {
        match watch(channel.clone()).await {
            Ok(updates) => watches.push(updates),
            Err(refusal) => break refusal,
        }
    };
    assert_eq!(watches.len(), MOST_WATCHES);
    assert_overloaded(&refusal);
    watch(grpc::channel(server.address("gRPC")).await).await.unwrap();
    assert_eq!(grpc::health_over(channel.clone(), "").await.unwrap(), ServingStatus::Serving);
    watches.pop();
    eventually(ANSWER_TIMEOUT, async || watch(channel.clone()).await.map_err(|refusal| refusal.to_string()))
        .await;
}

fn assert_overloaded(status: &Status) {
    assert_eq!(
        (status.code(), grpc::reason(status).as_str()),
        (Code::Unavailable, "OVERLOADED"),
        "{status:?}"
    );
}
