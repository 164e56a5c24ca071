//! Traces of requests, as a receiver gets them.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use petstore_testkit::{
    Engine, Installation, Plan, ReceivedSpan, Server, TestShop, TraceReceiver, eventually,
    servers::{RedisOptions, RedisServer},
};
use serde_json::json;
use tokio::net::TcpListener;

use crate::{first_client, key_of_new_account, petstore, serve};

/// Field `traceparent` of a sender that wants its request recorded. With `00` at the end it does not.
const SENDER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

#[tokio::test]
async fn a_request_is_one_trace_from_its_head_to_the_database() {
    let receiver = TraceReceiver::start().await;
    let shop = shop_traced(&receiver, "1").await;
    let client = shop.client_on(Plan::Free).await;
    let named = |name| client.with_header("x-request-id", name);
    named("first-one").post("/v1/pets", &json!({"name": "Rex", "categoryId": 1})).await.assert_status(201);
    named("second-one").get("/v1/pets/404").await.assert_status(404);
    named("third-one").get("/v1/pets?limit=0").await.assert_status(400);

    // The key is looked up once, and cached.
    let created = "
petstore: POST /v1/pets
  petstore: petstore.internal.v1.KeyService/ResolveKeys
    petstore: petstore.internal.v1.KeyService/ResolveKeys
      petstore: SELECT revision
  petstore: petstore.v1.PetStore/CreatePet
    petstore: petstore.v1.PetStore/CreatePet
      petstore: INSERT pets";
    receiver.expect_tree("first-one", created).await;
    let missed = "
petstore: GET /v1/pets/{petId}
  petstore: petstore.v1.PetStore/GetPet
    petstore: petstore.v1.PetStore/GetPet
      petstore: SELECT pets";
    let spans = receiver.expect_tree("second-one", missed).await;
    let root = &spans.iter().find(|span| span.span.parent_span_id.is_empty()).expect("a root");
    for (name, value) in [
        ("http.request.method", "GET"),
        ("http.route", "/v1/pets/{petId}"),
        ("http.response.status_code", "404"),
        ("petstore.code", "PET_NOT_FOUND"),
        ("petstore.operation", "getPet"),
        ("client.address", "127.0.0.1"),
    ] {
        assert_eq!(root.attribute(name).as_deref(), Some(value), "{name} of {root:?}");
    }
    // A store in SQLite begins with an account.
    let first = if Engine::of_this_run() == Engine::Sqlite { "2" } else { "1" };
    assert_eq!(root.attribute("petstore.account_id").as_deref(), Some(first), "{root:?}");
    let query = spans.iter().find(|span| span.span.name == "SELECT pets").expect("a statement");
    assert!(query.attribute("db.query.text").is_some_and(|sql| sql.contains("= ")), "{query:?}");
    assert!(!format!("{:?}", query.span.attributes).contains("404"), "values are in no span: {query:?}");
    receiver.expect_tree("third-one", "petstore: GET /v1/pets").await;
}

#[tokio::test]
async fn a_request_is_one_trace_across_gateway_core_and_redis() {
    let receiver = TraceReceiver::start().await;
    let redis = RedisServer::start(RedisOptions::default()).await;
    let installation = petstore();
    let traced = ["--admin-addr", "127.0.0.1:0", "--otlp-endpoint", receiver.url(), "--trace-ratio", "1"];
    let core =
        installation.start(&[["core", "--grpc-addr", "127.0.0.1:0"].as_slice(), &traced].concat()).await;
    let key = key_of_new_account(&installation).await;
    let core = format!("http://{}", core.address("gRPC"));
    let redis = redis.url();
    let flags = ["gateway", "--core-url", &core, "--http-addr", "127.0.0.1:0", "--redis-url", &redis];
    // So that the sender's trace begins before its key is known.
    let proxied = ["--trusted-proxy", "127.0.0.1"];
    let gateway = installation.start(&[flags.as_slice(), &traced, &proxied].concat()).await;
    gateway.ready().await;

    let client = gateway.client(&key).with_header("x-request-id", "the-request");
    client.with_header("traceparent", SENDER).get("/v1/pets").await.assert_status(200);
    let tree = "
petstore-gateway: GET /v1/pets
  petstore-gateway: petstore.internal.v1.KeyService/ResolveKeys
    petstore-core: petstore.internal.v1.KeyService/ResolveKeys
      petstore-core: SELECT revision
  petstore-gateway: EVALSHA
  petstore-gateway: petstore.v1.PetStore/ListPets
    petstore-core: petstore.v1.PetStore/ListPets
      petstore-core: SELECT pets";
    let spans = receiver.expect_tree("the-request", tree).await;
    assert_eq!(hex(&spans[0].span.trace_id), SENDER[3..35], "the trace is the sender's");
    let roots = receiver.spans().into_iter().filter(|span| span.span.parent_span_id.is_empty());
    let roots: Vec<_> = roots.map(|root| root.span.name).collect();
    assert!(roots.is_empty(), "what gateways ask for by themselves begins no trace: {roots:?}");
}

#[tokio::test]
async fn the_sender_decides_about_tracing_and_otherwise_the_ratio() {
    let receiver = TraceReceiver::start().await;
    let shop = shop_traced(&receiver, "0").await;
    let client = shop.client_on(Plan::Pro).await;
    let not_recorded = SENDER.replace("3331-01", "3331-00");
    let logged = client.with_header("x-request-id", "not-recorded");
    for client in [logged.with_header("traceparent", &not_recorded), logged] {
        client.get("/v1/pets").await.assert_status(200);
    }
    let recorded = client.with_header("x-request-id", "is-recorded").with_header("traceparent", SENDER);
    recorded.get("/v1/pets/x").await.assert_status(404);
    receiver.expect_tree("is-recorded", "petstore: GET /v1/pets/{petId}").await;
    let spans = receiver.spans();
    assert_eq!(spans.len(), 1, "{spans:?}");
}

#[tokio::test]
async fn a_stranger_does_not_decide_about_tracing_and_a_trusted_proxy_does() {
    let receiver = TraceReceiver::start().await;
    let flags = ["--otlp-endpoint", receiver.url(), "--trace-ratio", "0", "--trusted-proxy", "127.0.0.2"];
    let shop = TestShop::open_with(&flags).await;
    let stranger = shop.anonymous().with_header("traceparent", SENDER);
    for (method, path) in
        [("GET", "/v1/pets"), ("GET", "/v1/nothing"), ("OPTIONS", "/v1/pets"), ("GET", "/docs")]
    {
        stranger.send(method, path, &[], "").await;
        stranger.with_key("x").send(method, path, &[], "").await;
    }
    let client = shop.client_on(Plan::Pro).await;
    let named = client.with_header("x-request-id", "of-a-client").with_header("traceparent", SENDER);
    let named = named.with_header("tracestate", "rojo=1,congo=2");
    named.get("/v1/pets/x").await.assert_status(404);
    let spans = receiver.expect_tree("of-a-client", "petstore: GET /v1/pets/{petId}").await;
    assert_eq!(spans[0].span.trace_state, "rojo=1,congo=2");
    let with_key = client
        .with_header("x-request-id", "with-a-secret")
        .with_header("traceparent", &SENDER.replace("0af7", "1af7"))
        .with_header("tracestate", &format!("a={}", client.key()));
    with_key.get("/v1/pets/x").await.assert_status(404);
    let spans = receiver.expect_tree("with-a-secret", "petstore: GET /v1/pets/{petId}").await;
    assert_eq!(spans[0].span.trace_state, "");
    assert_eq!(receiver.spans().len(), 2, "{:?}", receiver.spans());
    let proxied = TestShop::open_with(&[&flags[..5], &["127.0.0.1"]].concat()).await;
    let named = proxied
        .anonymous()
        .with_header("traceparent", &SENDER.replace("0af7", "2af7"))
        .with_header("x-request-id", "of-a-proxy");
    named.get("/v1/pets").await.assert_status(401);
    receiver.expect_tree("of-a-proxy", "petstore: GET /v1/pets").await;
}

/// Lookups that wait at the same moment share a call of `ResolveKeys`. If that ran in a task of its own, it
/// would belong to no request, and have no span.
#[tokio::test]
async fn look_ups_that_share_a_call_are_part_of_a_request_that_waits_for_one() {
    const RESOLVE: &str = "petstore.internal.v1.KeyService/ResolveKeys";
    let receiver = TraceReceiver::start().await;
    let shop = shop_traced(&receiver, "1").await;
    let account = shop.account_on(Plan::Free).await;
    let clients = join_all((0..8).map(|_| shop.client_of(&account))).await;
    join_all(clients.iter().map(|client| client.get("/v1/pets"))).await;
    let spans = eventually(Duration::from_mins(1), async || {
        let spans = receiver.spans();
        let requests = spans.iter().filter(|span| span.span.name == "GET /v1/pets").count();
        if requests == 8 { Ok(spans) } else { Err(format!("{requests} requests")) }
    })
    .await;
    let parent = |of: &ReceivedSpan| spans.iter().find(|span| span.span.span_id == of.span.parent_span_id);
    let calls: Vec<_> = spans.iter().filter(|span| span.span.name == RESOLVE).collect();
    let parents: Vec<_> = calls.iter().map(|call| parent(call).map(|span| &*span.span.name)).collect();
    let of_gateway = parents.iter().filter(|parent| **parent == Some("GET /v1/pets")).count();
    let of_core = parents.iter().filter(|parent| **parent == Some(RESOLVE)).count();
    assert!(of_gateway > 0 && of_gateway == of_core && of_gateway + of_core == calls.len(), "{parents:?}");
}

#[tokio::test]
async fn a_failure_of_the_service_is_marked_with_its_code() {
    let receiver = TraceReceiver::start().await;
    let installation = petstore();
    let core =
        installation.start(&["core", "--grpc-addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0"]).await;
    let key = key_of_new_account(&installation).await;
    let url = format!("http://{}", core.address("gRPC"));
    let flags = ["gateway", "--core-url", &url, "--http-addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0"];
    let traced = ["--otlp-endpoint", receiver.url(), "--trace-ratio", "1"];
    let gateway = installation.start(&[flags.as_slice(), &traced].concat()).await;
    gateway.ready().await;
    gateway.client(&key).get("/v1/pets").await.assert_status(200);
    core.crash().await;

    let client = gateway.client(&key).with_header("x-request-id", "without-core");
    client.get("/v1/pets").await.assert_error(503, "UNAVAILABLE");
    let spans = receiver.expect_trace("without-core").await;
    assert!(spans.len() > 1, "the call to the core, and perhaps the gateway's second try: {spans:?}");
    for span in spans {
        assert!(span.attribute("error.type").is_some(), "{span:?}");
        assert_eq!(span.span.status.as_ref().map(|status| status.code), Some(2), "{span:?}");
    }
}

#[tokio::test]
async fn the_last_spans_are_sent_when_the_service_ends_and_the_log_names_their_trace() {
    let receiver = TraceReceiver::start().await;
    let installation = petstore();
    let server = start_traced(&installation, receiver.url()).await;
    let client = first_client(&installation, &server).with_header("traceparent", SENDER);
    let named = |name| client.with_header("x-request-id", name);
    // So that the connection to the receiver stands: the last spans have one second.
    named("an-earlier-one").get("/v1/pets").await.assert_status(200);
    receiver.expect_trace("an-earlier-one").await;
    named("the-last-one").get("/v1/pets").await.assert_status(200);
    let exit = server.terminate().await;
    assert_eq!(exit.code, Some(0), "{exit:?}");
    let root = |span: &ReceivedSpan| span.attribute("petstore.request_id").as_deref() == Some("the-last-one");
    assert!(receiver.spans().iter().any(root), "{:?}", receiver.spans());
    let line = exit.stderr.lines().find(|line| line.contains("the-last-one")).expect("a line of the request");
    assert!(line.contains(&format!("\"trace_id\":\"{}\"", &SENDER[3..35])), "{line}");
}

#[tokio::test]
async fn a_hung_trace_receiver_delays_no_request_and_no_stop() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap(); // it accepts nothing
    let installation = petstore();
    let server = start_traced(&installation, &format!("http://{}", silent.local_addr().unwrap())).await;
    let anonymous = server.anonymous();
    let dropped = eventually(Duration::from_mins(5), async || {
        let start = Instant::now();
        // Sent at once, because more spans have to end than are given up meanwhile: 512 every 3 s. If each
        // request waited for the receiver, a hundred in a row would take 5 minutes.
        join_all((0..8).map(|_| anonymous.sends(100, "/v1/pets"))).await;
        assert!(start.elapsed() < Duration::from_mins(1), "8 times 100 requests took {:?}", start.elapsed());
        let metrics = server.admin().get("/metrics").await;
        let name = "petstore_trace_spans_total{outcome=\"dropped\"} ";
        let dropped = metrics.text().lines().find_map(|line| line.strip_prefix(name)?.parse::<u64>().ok());
        dropped.filter(|dropped| *dropped > 0).ok_or_else(|| metrics.text().to_owned())
    })
    .await;
    assert!(dropped > 0);
    let exit = server.terminate().await;
    assert_eq!(exit.code, Some(0), "{exit:?}");
    assert!(exit.took < Duration::from_secs(10), "{exit:?}");
}

#[tokio::test]
async fn an_invalid_trace_endpoint_or_ratio_is_refused() {
    let installation = petstore();
    for (flags, right) in [
        (["--otlp-endpoint", "https://127.0.0.1:4317"], "http://127.0.0.1:4317"),
        (["--trace-ratio", "1.5"], "from 0 to 1"),
    ] {
        let exit = installation.run(&serve(&flags)).await;
        assert_eq!(exit.code, Some(2), "{exit:?}");
        assert!(exit.stderr.contains(flags[0]) && exit.stderr.contains(right), "{exit:?}");
    }
}

async fn shop_traced(receiver: &TraceReceiver, ratio: &str) -> TestShop {
    TestShop::open_with(&["--otlp-endpoint", receiver.url(), "--trace-ratio", ratio]).await
}

async fn start_traced(installation: &Installation, receiver: &str) -> Server {
    let flags = ["--otlp-endpoint", receiver, "--trace-ratio", "1", "--log-format", "json"];
    installation.start(&serve(&flags)).await
}

fn hex(trace_id: &[u8]) -> String {
    format!("{:032x}", u128::from_be_bytes(trace_id.try_into().unwrap()))
}
