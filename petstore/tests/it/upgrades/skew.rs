//! A gateway and a core of different releases. A proxy makes the core's answers those of another release.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use petstore_caller::api_key::OperatorToken;
use petstore_proto::{
    internal::v1::{
        Answer, Brownout, BrownoutCalendar, CallResponse, CallStatus, ListChangesResponse,
        ResolveKeysResponse, ResolvedKey, answer::Outcome,
    },
    v1::ListPetsResponse,
};
use petstore_testkit::{
    Client, Installation, Server, eventually,
    grpc::{core_without_methods, rewriting_proxy},
};
use prost::Message;
use serde_json::json;

use crate::{
    pets::created,
    petstore,
    split::{NOTICED_TIMEOUT, core_with_a_key, readiness, start_gateway},
};

const RESOLVE_KEYS: &str = "/petstore.internal.v1.KeyService/ResolveKeys";
const LIST_CHANGES: &str = "/petstore.internal.v1.KeyService/ListChanges";
const CALL: &str = "/petstore.internal.v1.BatchService/Call";

/// Number of a value that this release does not know, in any enumeration.
const UNKNOWN_VALUE: i32 = 999;

/// A core whose answers are rewritten, and a gateway.
struct Skewed {
    _installation: Installation,
    _core: Server,
    gateway: Server,
    client: Client,
}

impl Skewed {
    async fn open(rewrite: impl Fn(&str, Vec<u8>) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let installation = petstore();
        let (core, key) = core_with_a_key(&installation).await;
        let proxy = rewriting_proxy(core.address("gRPC"), rewrite).await;
        let gateway = start_gateway(&installation, &proxy.to_string()).await;
        let client = gateway.client(&key);
        Self { _installation: installation, _core: core, gateway, client }
    }
}

/// Waits until the gateway's log has this text.
async fn logged(shop: &Skewed, text: &str) {
    eventually(NOTICED_TIMEOUT, async || match shop.gateway.stderr() {
        log if log.contains(text) => Ok(()),
        log => Err(log),
    })
    .await;
}

/// Returns the message after a change.
fn changed<M: Message + Default>(message: &[u8], change: impl FnOnce(&mut M)) -> Vec<u8> {
    let mut message = M::decode(message).expect("a message of the core");
    change(&mut message);
    message.encode_to_vec()
}

fn with_changed_keys(message: &[u8], change: impl FnMut(&mut ResolvedKey)) -> Vec<u8> {
    changed(message, |found: &mut ResolveKeysResponse| {
        found.keys.iter_mut().filter_map(|found| found.key.as_mut()).for_each(change);
    })
}

#[tokio::test]
async fn a_gateway_serves_clients_of_a_newer_core_that_adds_fields_and_values() {
    let shop = Skewed::open(|path, message| {
        let mut message = match path {
            RESOLVE_KEYS => with_changed_keys(&message, |key| key.plan = UNKNOWN_VALUE),
            LIST_CHANGES => changed(&message, |feed: &mut ListChangesResponse| {
                feed.methods.push("petstore.v2.PetStore/GetPet".to_owned());
            }),
            CALL => changed(&message, |answers: &mut CallResponse| {
                for answer in &mut answers.answers {
                    // A pet and a page of one pet are written in the same way.
                    let Some(Outcome::Message(message)) = &mut answer.outcome else { continue };
                    let change = |page: &mut ListPetsResponse| {
                        page.pets.iter_mut().for_each(|pet| pet.status = UNKNOWN_VALUE);
                    };
                    *message = changed(message, change).into();
                }
            }),
            _ => message,
        };
        message.extend([0xfa, 0x3e, 3, b'n', b'e', b'w']); // field 1007, a text
        message
    })
    .await;
    shop.gateway.ready().await;
    let pet = json!({"name": "Rex", "categoryId": 7, "status": "sold"});
    let id = created(&shop.client.post("/v1/pets", &pet).await);
    let without_status = json!({"id": id, "name": "Rex", "categoryId": 7});
    let got = shop.client.get(&format!("/v1/pets/{id}")).await;
    assert_eq!(got.assert_status(200).json(), without_status);
    assert_eq!(got.rate().limit, 60, "the limits are those that the core gave: {got:?}");
    let page = shop.client.get("/v1/pets?status=sold").await;
    assert_eq!(page.assert_status(200).json(), json!([without_status]));
    let usage = shop.client.get("/v1/usage").await;
    assert_eq!(usage.assert_status(200).json()["plan"], "other");
}

#[tokio::test]
async fn a_key_expires_by_the_clock_of_the_core_and_not_of_the_gateway() {
    const MINUTE_MS: i64 = 60_000;
    let ahead = |ms: i64| {
        Skewed::open(move |path, message| match path {
            RESOLVE_KEYS => changed(&message, |found: &mut ResolveKeysResponse| {
                let now = found.now_ms.expect("the core's time") + ms;
                found.now_ms = Some(now);
                let keys = found.keys.iter_mut().filter_map(|found| found.key.as_mut());
                // Half a minute ago for a core that is a minute ahead, and to come for the gateway
                keys.for_each(|key| key.expires_at_ms = Some(now - ms / 2));
            }),
            LIST_CHANGES => changed(&message, |feed: &mut ListChangesResponse| {
                feed.now_ms = feed.now_ms.map(|now| now + ms);
            }),
            _ => message,
        })
    };
    let shop = ahead(MINUTE_MS).await;
    shop.gateway.ready().await;
    shop.client.get("/v1/pets").await.assert_error(401, "API_KEY_EXPIRED");
    let shop = ahead(-MINUTE_MS).await;
    shop.gateway.ready().await;
    shop.client.get("/v1/pets").await.assert_status(200);
}

#[tokio::test]
async fn a_brownout_begins_by_the_clock_of_the_core_and_not_of_the_gateway() {
    const MINUTE_MS: i64 = 60_000;
    let ahead = |ms: i64| {
        Skewed::open(move |path, message| match path {
            RESOLVE_KEYS => changed(&message, |found: &mut ResolveKeysResponse| {
                found.now_ms = found.now_ms.map(|now| now + ms);
            }),
            LIST_CHANGES => changed(&message, |feed: &mut ListChangesResponse| {
                let now = feed.now_ms.expect("the core's time") + ms;
                feed.now_ms = Some(now);
                // Half a minute ago for a core that is a minute ahead, and to come for the gateway
                let (starts_at_ms, ends_at_ms) = (now - ms / 2, now + 5 * MINUTE_MS);
                let planned = Brownout { account_id: 0, starts_at_ms, ends_at_ms };
                feed.brownouts = Some(BrownoutCalendar { brownouts: vec![planned] });
            }),
            _ => message,
        })
    };
    let shop = ahead(MINUTE_MS).await;
    shop.gateway.ready().await;
    shop.client.get("/v1/pets/1").await.assert_error(410, "OPERATION_BROWNOUT");
    let shop = ahead(-MINUTE_MS).await;
    shop.gateway.ready().await;
    shop.client.get("/v1/pets/1").await.assert_error(404, "PET_NOT_FOUND");
    let announced = shop.client.get("/v1/usage").await.assert_status(200).json();
    assert_eq!(announced["brownouts"].as_array().map(Vec::len), Some(1), "{announced}");
}

#[tokio::test]
async fn a_key_in_a_state_that_the_gateway_does_not_know_is_neither_admitted_nor_called_invalid() {
    let shop = Skewed::open(|path, message| match path {
        RESOLVE_KEYS => with_changed_keys(&message, |key| key.state = UNKNOWN_VALUE),
        _ => message,
    })
    .await;
    shop.gateway.ready().await;
    let refused = shop.client.get("/v1/pets").await;
    refused.assert_error(503, "UNAVAILABLE");
    assert_eq!(refused.retry_after(), 1, "{refused:?}");
    logged(&shop, "the core may be a newer version").await;
}

#[tokio::test]
async fn a_refusal_for_an_unknown_reason_has_the_status_of_its_grpc_code() {
    let shop = Skewed::open(|path, message| match path {
        CALL => changed(&message, |answers: &mut CallResponse| {
            answers.answers.iter_mut().filter_map(failure_details).for_each(|details| {
                let reason = b"PET_NOT_FOUND";
                let at = details.windows(reason.len()).position(|window| window == reason).expect("a reason");
                details[at..at + reason.len()].copy_from_slice(b"PET_IS_HIDDEN");
            });
        }),
        _ => message,
    })
    .await;
    shop.gateway.ready().await;
    shop.client.get("/v1/pets/99").await.assert_error(404, "PET_NOT_FOUND");
}

fn failure_details(answer: &mut Answer) -> Option<&mut Vec<u8>> {
    if let Some(Outcome::Failure(failure)) = &mut answer.outcome { Some(&mut failure.details) } else { None }
}

#[tokio::test]
async fn a_gateway_before_a_core_that_lacks_a_method_is_not_ready_and_names_the_method() {
    let lacking = "petstore.internal.v1.KeyService/ResolveKeys";
    let shop = Skewed::open(move |path, message| match path {
        LIST_CHANGES => changed(&message, |feed: &mut ListChangesResponse| {
            feed.methods.retain(|method| method != lacking);
        }),
        _ => message,
    })
    .await;
    logged(&shop, "lacks methods that this gateway needs").await;
    let unready = readiness(&shop.gateway).await;
    let body = unready.assert_status(503).json();
    assert_eq!(body["parts"], json!({"core": "down", "limiter": "ok"}));
    assert_eq!(body["causes"]["core"]["cause"], "lacks_methods", "{body}");
    let log = shop.gateway.stderr();
    let lines: Vec<_> = log.lines().filter(|line| line.contains("lacks methods")).collect();
    assert!(matches!(lines.as_slice(), [line] if line.contains("ResolveKeys")), "{log}");
}

#[tokio::test]
async fn a_gateway_before_a_core_that_lacks_a_method_of_clients_is_ready_and_answers_its_callers_with_503() {
    let lacking = "petstore.v1.StoreService/ListOrders";
    let is_listing_orders = Arc::new(AtomicBool::new(false));
    let is_lacking = Arc::clone(&is_listing_orders);
    let shop = Skewed::open(move |path, message| match path {
        LIST_CHANGES => changed(&message, |feed: &mut ListChangesResponse| {
            feed.methods.retain(|method| method != lacking);
        }),
        CALL if is_lacking.load(Ordering::Relaxed) => changed(&message, |answers: &mut CallResponse| {
            for answer in &mut answers.answers {
                let unimplemented = CallStatus { code: 12, message: "no method".into(), details: vec![] };
                answer.outcome = Some(Outcome::Failure(unimplemented));
            }
        }),
        _ => message,
    })
    .await;
    shop.gateway.ready().await;
    shop.client.get("/v1/pets").await.assert_status(200);
    is_listing_orders.store(true, Ordering::Relaxed);
    let refused = shop.client.get("/v1/store/orders").await;
    refused.assert_error(503, "UNAVAILABLE");
    assert_eq!(refused.retry_after(), 1, "{refused:?}");
    logged(&shop, lacking).await;
}

#[tokio::test]
async fn an_operator_whose_core_lacks_a_method_is_told_to_upgrade_it() {
    let installation = petstore();
    let token = OperatorToken::generate();
    installation.write_secret("token", token.expose());
    let core = core_without_methods();
    let core_url = format!("http://{core}");
    let command = ["usage", "--all", "--core-url", &core_url, "--operator-token-file", "token"];
    let failed = installation.run(&command).await;
    assert_eq!(
        (failed.code, failed.stdout.as_str(), failed.stderr.as_str()),
        (Some(1), "", "error: the core lacks this method: upgrade it\n")
    );
    let gateway = start_gateway(&installation, &core.to_string()).await;
    let answer = gateway.admin().with_key(token.expose()).get("/admin/v1/account-usage").await;
    answer.assert_error_body(503, "UNAVAILABLE");
    assert_eq!(answer.message(), "the core lacks this method: upgrade it");
}
