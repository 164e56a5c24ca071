//! Brownouts: rehearsals of the removal of `GET /v1/pets/{petId}`.

use std::time::Duration;

use petstore_proto::internal::v1::ListChangesResponse;
use petstore_testkit::{
    Answer, Client, Plan, Role, TestShop, eventually,
    grpc::{self, rewriting_proxy},
};
use prost::Message;
use serde_json::{Value, json};

use crate::{
    key_without_limits,
    pets::created,
    petstore, serve,
    split::{core_with_a_key, start_gateway},
};

/// Time within which gateways follow.
const FOLLOWED_TIMEOUT: Duration = Duration::from_secs(5);

async fn operator(shop: &TestShop) -> Client {
    let token = shop.operator_token("ann", Role::Admin).await;
    shop.admin().with_header("authorization", &format!("Bearer {token}"))
}

/// Waits until the answer has this status.
async fn eventually_is(client: &Client, path: &str, status: u16) -> Answer {
    eventually(FOLLOWED_TIMEOUT, async || {
        let answer = client.get(path).await;
        if answer.status() == status { Ok(answer) } else { Err(format!("{answer:?}")) }
    })
    .await
}

#[tokio::test]
async fn during_a_brownout_every_gateway_answers_410_with_its_end_and_its_links() {
    let shop = TestShop::open_apart(2).await;
    let client = shop.client_with(10_000, 100_000).await;
    let one = created(&client.post("/v1/pets", &json!({"name": "Rex", "categoryId": 1})).await);
    let path = format!("/v1/pets/{one}");
    let planned = operator(&shop).await.post("/admin/v1/brownouts", &json!({"duration": "600s"})).await;
    assert_eq!(
        planned.assert_status(201).json(),
        json!({
            "id": 1,
            "account": "",
            "operationId": "getPet",
            "startTime": "2026-11-20T10:00:00Z",
            "endTime": "2026-11-20T10:10:00Z",
        })
    );
    for gateway in shop.gateways() {
        let client = Client::new(gateway).with_key(client.key());
        let answer = eventually_is(&client, &path, 410).await;
        answer.assert_error(410, "OPERATION_BROWNOUT");
        assert_eq!(
            answer.message(),
            "this operation is off until 2026-11-20T10:10:00Z, as a rehearsal of its removal on 5 December \
             2030; use GET /v1/pets instead"
        );
        assert_eq!(
            answer.values("link"),
            [
                "</docs/errors/OPERATION_BROWNOUT>; rel=\"help\"",
                "</v1/pets?status=available>; rel=\"successor-version\"",
                "</docs/deprecation>; rel=\"deprecation\"; type=\"text/html\"",
            ]
        );
        let left = answer.rate().remaining;
        let head = client.send("HEAD", &path, &[], "").await;
        assert_eq!((head.status(), head.rate().remaining), (410, left - 1), "it counts: {head:?}");
        client.get("/v1/pets/x").await.assert_error(410, "OPERATION_BROWNOUT");
        client.send("DELETE", &path, &[], "").await.assert_error(405, "METHOD_NOT_ALLOWED");
        client.get("/v1/pets?status=available").await.assert_status(200);
    }
    shop.anonymous().get(&path).await.assert_error(401, "MISSING_API_KEY");
    let mut pets = grpc::pet_store(shop.grpc_addr()).await;
    #[expect(deprecated, reason = "GetPet stays on gRPC")]
    let answer = pets.get_pet(grpc::pb::GetPetRequest { pet_id: one }).await.unwrap().into_inner();
    assert_eq!(answer.pet.unwrap().name, "Rex");

    shop.advance(Duration::from_millis(599_999));
    client.get(&path).await.assert_error(410, "OPERATION_BROWNOUT");
    shop.advance(Duration::from_millis(1));
    client.get(&path).await.assert_status(200);
}

#[tokio::test]
async fn a_planned_brownout_is_announced_in_usage_to_its_account_alone_until_it_is_cancelled() {
    let shop = TestShop::open().await;
    let (account, other) = (shop.account_on(Plan::Free).await, shop.client_on(Plan::Free).await);
    let client = shop.client_of(&account).await;
    let usage = async |client: &Client| client.get("/v1/usage").await.assert_status(200).json();
    assert_eq!(usage(&client).await.get("brownouts"), None);

    let ann = operator(&shop).await;
    let plan = json!({"account": account.as_str(), "startTime": "2026-11-20T12:00:00Z", "duration": "3600s"});
    let planned = ann.post("/admin/v1/brownouts", &plan).await.assert_status(201).json();
    let announced = json!([{
        "operation": "getPet",
        "from": "2026-11-20T12:00:00Z",
        "until": "2026-11-20T13:00:00Z",
    }]);
    let shows = async |expected: Option<&Value>| {
        eventually(FOLLOWED_TIMEOUT, async || match usage(&client).await {
            usage if usage.get("brownouts") == expected => Ok(()),
            usage => Err(usage.to_string()),
        })
        .await;
    };
    shows(Some(&announced)).await;
    assert_eq!(usage(&other).await.get("brownouts"), None);
    client.get("/v1/pets/1").await.assert_error(404, "PET_NOT_FOUND"); // it has not begun
    let listed = ann.get("/admin/v1/brownouts").await;
    assert_eq!(listed.assert_status(200).json(), json!({ "brownouts": [planned] }));

    shop.advance(Duration::from_hours(2));
    client.get("/v1/pets/1").await.assert_error(410, "OPERATION_BROWNOUT");
    other.get("/v1/pets/1").await.assert_error(404, "PET_NOT_FOUND");

    let cancel = format!("/admin/v1/brownouts/{}", planned["id"]);
    for _ in 0..2 {
        ann.send("DELETE", &cancel, &[], "").await.assert_status(200); // the second time it does nothing
    }
    shows(None).await;
    client.get("/v1/pets/1").await.assert_error(404, "PET_NOT_FOUND");
    let events = ann.get(&format!("/admin/v1/audit-events?account={account}")).await.json();
    let events = events["events"].as_array().unwrap();
    let actions: Vec<_> = events.iter().map(|event| event["action"].as_str().unwrap()).collect();
    assert_eq!(actions[..2], ["CancelBrownout", "CreateBrownout"], "{events:?}");
}

#[tokio::test]
async fn a_brownout_without_an_end_or_a_place_in_the_calendar_is_refused() {
    let shop = TestShop::open().await;
    let ann = operator(&shop).await;
    for (plan, field) in [
        (json!({}), "duration"),
        (json!({"duration": "0s"}), "duration"),
        (json!({"duration": "604801s"}), "duration"),
        (json!({"duration": "60s", "startTime": "2026-11-20T09:59:00Z"}), "startTime"),
        (json!({"duration": "60s", "startTime": "9999-12-31T23:59:59Z"}), "startTime"),
        (json!({"duration": "60s", "account": ""}), "account"), // not every account
    ] {
        let refused = ann.post("/admin/v1/brownouts", &plan).await;
        refused.assert_error_body(400, "INVALID_PARAMETER");
        assert!(refused.message().starts_with(field), "{plan}: {refused:?}");
    }
    let unknown = json!({"account": "nobody", "duration": "60s"});
    ann.post("/admin/v1/brownouts", &unknown).await.assert_error_body(404, "ACCOUNT_NOT_FOUND");
    for _ in 0..32 {
        ann.post("/admin/v1/brownouts", &json!({"duration": "60s"})).await.assert_status(201);
    }
    let refused = ann.post("/admin/v1/brownouts", &json!({"duration": "60s"})).await;
    refused.assert_error_body(400, "INVALID_PARAMETER");
    assert!(refused.message().contains("more than 32"), "{refused:?}");
    shop.advance(Duration::from_mins(1)); // all have ended
    ann.post("/admin/v1/brownouts", &json!({"duration": "60s"})).await.assert_status(201);
    assert_eq!(ann.get("/admin/v1/brownouts").await.json()["brownouts"].as_array().unwrap().len(), 1);

    let viewer = shop.operator_token("vic", Role::Viewer).await;
    let viewer = shop.admin().with_header("authorization", &format!("Bearer {viewer}"));
    viewer.get("/admin/v1/brownouts").await.assert_status(200);
    let refused = viewer.post("/admin/v1/brownouts", &json!({"duration": "60s"})).await;
    refused.assert_error_body(403, "OPERATOR_NOT_PERMITTED");
}

#[tokio::test]
async fn brownouts_are_planned_listed_and_cancelled_with_the_command() {
    let installation = petstore();
    let server = installation.start(&serve(&[])).await;
    server.ready().await;
    let client = server.client(&key_without_limits(&installation).await);
    let planned = installation.run(&["brownout", "create", "--for", "1h"]).await;
    assert!(planned.stdout.starts_with("brownout 1: getPet is off for all accounts from "), "{planned:?}");
    let answer = eventually_is(&client, "/v1/pets/1", 410).await;
    answer.assert_error(410, "OPERATION_BROWNOUT");
    let listed = installation.run(&["brownout", "list"]).await;
    let lines: Vec<_> = listed.stdout.lines().collect();
    assert_eq!(lines.len(), 2, "{listed:?}");
    assert!(lines[0].starts_with("ID") && lines[1].starts_with("1 "), "{listed:?}");
    let cancelled = installation.run(&["brownout", "cancel", "1"]).await;
    assert_eq!(cancelled.stdout, "brownout 1 is not planned\n", "{cancelled:?}");
    eventually_is(&client, "/v1/pets/1", 404).await;
}

#[tokio::test]
async fn a_gateway_whose_core_knows_no_brownouts_serves_on() {
    let installation = petstore();
    let (core, key) = core_with_a_key(&installation).await;
    let proxy = rewriting_proxy(core.address("gRPC"), |path, message| {
        if path != "/petstore.internal.v1.KeyService/ListChanges" {
            return message;
        }
        let mut feed = ListChangesResponse::decode(&*message).expect("a message of the core");
        assert!(feed.brownouts.is_some(), "the core of this release lists them");
        feed.brownouts = None;
        feed.encode_to_vec()
    })
    .await;
    let gateway = start_gateway(&installation, &proxy.to_string()).await;
    gateway.ready().await;
    assert_eq!(installation.run(&["brownout", "create", "--for", "1h"]).await.code, Some(0));
    tokio::time::sleep(Duration::from_secs(2)).await; // the feed is read every second
    gateway.client(&key).get("/v1/pets/1").await.assert_error(404, "PET_NOT_FOUND");
}
