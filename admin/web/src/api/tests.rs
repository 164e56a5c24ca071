//! Tests against a core with canned answers: the translation of requests and of answers.

use std::{
    collections::BTreeSet,
    convert::Infallible,
    sync::{Arc, Mutex},
};

use axum::body::{Body, to_bytes};
use http::{Request, Response};
use http_body_util::BodyExt;
use petstore_core_client::CoreTransport;
use petstore_proto::admin::v1::{self as admin, AdminErrorReason};
use prost::Message;
use serde_json::{Value, json};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};
use tower::{BoxError, ServiceExt, service_fn};

use super::*;
use crate::testing::gateway;

mod empty_values;

/// Calls as the core received them: path, header fields and message.
type Calls = Arc<Mutex<Vec<(String, HeaderMap, Vec<u8>)>>>;

struct ApiUnderTest {
    router: Router,
    calls: Calls,
}

impl ApiUnderTest {
    /// Creates the admin API in front of a core that gives every call this answer.
    fn new(answer: Result<Vec<u8>, Status>) -> Self {
        let calls = Calls::default();
        let core = {
            let calls = Arc::clone(&calls);
            service_fn(move |request: Request<tonic::body::Body>| {
                let (calls, answer) = (Arc::clone(&calls), answer.clone());
                async move {
                    let (head, body) = request.into_parts();
                    let body = body.collect().await.unwrap().to_bytes();
                    let message = body.get(5..).unwrap_or_default().to_vec(); // after the frame's head
                    calls.lock().unwrap().push((head.uri.path().to_owned(), head.headers, message));
                    Ok::<_, Infallible>(match answer {
                        Ok(message) => grpc(&message),
                        Err(status) => status.into_http(),
                    })
                }
            })
        };
        let core = CoreTransport::new(core.map_err(|never| -> BoxError { match never {} }));
        let state = AdminState::new(&gateway(core));
        Self { router: api(Arc::new(state)), calls }
    }

    fn answering(message: &impl Message) -> Self {
        Self::new(Ok(message.encode_to_vec()))
    }

    async fn send(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        self.send_as(Some("Bearer pet_op_x"), method, path, body).await
    }

    async fn send_as(&self, token: Option<&str>, method: &str, path: &str, body: &str) -> (u16, Value) {
        let mut request = Request::builder().method(method).uri(path);
        if let Some(token) = token {
            request = request.header("authorization", token);
        }
        let request = request.body(Body::from(body.to_owned())).unwrap();
        let response = self.router.clone().oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        (status, serde_json::from_slice(&body).unwrap_or_default())
    }

    /// Returns the last call, with its message.
    fn last<M: Message + Default>(&self) -> (String, HeaderMap, M) {
        let (path, headers, message) =
            self.calls.lock().unwrap().last().cloned().expect("the core was called");
        (path, headers, M::decode(message.as_slice()).unwrap())
    }

    fn calls(&self) -> usize {
        self.calls.lock().unwrap().len()
    }
}

fn grpc(message: &[u8]) -> Response<tonic::body::Body> {
    let mut frame = vec![0];
    frame.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
    frame.extend(message);
    let body = http_body_util::Full::from(frame).map_err(|never: Infallible| match never {});
    let trailers =
        HeaderMap::from_iter([("grpc-status".parse().unwrap(), http::HeaderValue::from_static("0"))]);
    let body = body.with_trailers(async move { Some(Ok(trailers)) });
    Response::builder().header("content-type", "application/grpc").body(tonic::body::Body::new(body)).unwrap()
}

fn refused(reason: &str) -> Status {
    let mut details = ErrorDetails::new();
    details.set_error_info(reason, petstore_proto::ERROR_DOMAIN, [] as [(String, String); 0]);
    Status::with_error_details(Code::FailedPrecondition, "said by the core", details)
}

fn account() -> admin::Account {
    admin::Account {
        id: 7,
        name: "shop".into(),
        plan: admin::Plan::Free.into(),
        limits: Some(admin::Limits { per_minute: 60, per_day: 1_000 }),
        create_time: Some(prost_types::Timestamp { seconds: 1_795_200_000, nanos: 0 }),
        ..admin::Account::default()
    }
}

#[tokio::test]
async fn an_account_is_json_with_the_names_of_the_public_interface() {
    let tested = ApiUnderTest::answering(&admin::GetAccountResponse { account: Some(account()) });
    let (status, body) = tested.send("GET", "/admin/v1/accounts/shop", "").await;
    let expected = json!({
        "id": 7,
        "name": "shop",
        "plan": "free",
        "limits": { "perMinute": 60, "perDay": 1000 },
        "createTime": "2026-11-20T18:40:00Z",
        "suspendReason": "",
    });
    assert_eq!((status, body), (200, expected));
    let (path, headers, message) = tested.last::<admin::GetAccountRequest>();
    assert_eq!(path, "/petstore.admin.v1.AdminService/GetAccount");
    assert_eq!(message.account, "shop");
    assert_eq!(headers["authorization"], "Bearer pet_op_x");
    assert_eq!(headers["petstore-client-address"], "0.0.0.0");
}

#[tokio::test]
async fn parameters_and_bodies_become_fields() {
    let tested = ApiUnderTest::answering(&admin::ListAccountsResponse::default());
    let query = "pageSize=5&nameContains=a%20b&plan=pro&suspended=false";
    let (status, body) = tested.send("GET", &format!("/admin/v1/accounts?{query}"), "").await;
    assert_eq!((status, body), (200, json!({ "accounts": [], "nextPageToken": "" })));
    let (_, _, message) = tested.last::<admin::ListAccountsRequest>();
    let expected = admin::ListAccountsRequest {
        page_size: 5,
        name_contains: "a b".into(),
        plan: admin::Plan::Pro.into(),
        suspended: Some(false),
        ..admin::ListAccountsRequest::default()
    };
    assert_eq!(message, expected);

    let tested = ApiUnderTest::answering(&admin::CreateKeyResponse::default());
    let (status, _) =
        tested.send("POST", "/admin/v1/accounts/shop/keys", r#"{"label":"ci","ttl":"2h"}"#).await;
    assert_eq!(status, 201);
    let (_, _, message) = tested.last::<admin::CreateKeyRequest>();
    let ttl = prost_types::Duration { seconds: 7_200, nanos: 0 };
    let expiration = Some(admin::create_key_request::Expiration::Ttl(ttl));
    let expected = admin::CreateKeyRequest {
        account: "shop".into(),
        label: "ci".into(),
        expiration,
        ..admin::CreateKeyRequest::default()
    };
    assert_eq!(message, expected);

    let tested = ApiUnderTest::answering(&admin::UpdateAccountResponse { account: Some(account()) });
    let body = r#"{"plan":"enterprise","limits":{"perMinute":5,"perDay":50}}"#;
    assert_eq!(tested.send("PATCH", "/admin/v1/accounts/shop", body).await.0, 200);
    let (_, _, message) = tested.last::<admin::UpdateAccountRequest>();
    assert_eq!(message.update_mask.unwrap().paths, ["plan", "limits"]);
    let values = message.values.unwrap();
    assert_eq!(values.plan(), admin::Plan::Enterprise);
    assert_eq!(values.limits, Some(admin::Limits { per_minute: 5, per_day: 50 }));
}

#[tokio::test]
async fn every_fault_of_a_request_is_named_in_one_message_without_a_call() {
    let tested = ApiUnderTest::answering(&admin::CreateBanResponse::default());
    let body = r#"{"reason":5,"duration":"soon","x":1}"#;
    let (status, refusal) = tested.send("POST", "/admin/v1/keys/k/ban", body).await;
    let message = "reason must be a string; duration must be a duration such as 3600s, 2h or 90d; \
                   x is not a field of this object";
    assert_eq!(
        (status, &refusal["code"], &refusal["message"]),
        (400, &json!("INVALID_PARAMETER"), &json!(message))
    );
    for (method, path, body, message) in [
        ("GET", "/admin/v1/accounts?plans=free", "", "plans is not a parameter of this operation"),
        ("GET", "/admin/v1/accounts?plan=gold", "", "plan must be one of free, pro, business, enterprise"),
        ("GET", "/admin/v1/accounts/a?accountId=2", "", "accountId is not a parameter of this operation"),
        ("GET", "/admin/v1/accounts?pageSize=1&pageSize=x", "", "pageSize is given more than once"),
        (
            "POST",
            "/admin/v1/keys/k/ban",
            r#"{"duration":"1h","endTime":"2026-11-23T09:00:00Z"}"#,
            "endTime cannot be combined with another field that says the same",
        ),
        ("POST", "/admin/v1/keys/k/ban", r#"{"keyId":"other"}"#, "keyId is not a field of this object"),
    ] {
        let (status, refusal) = tested.send(method, path, body).await;
        assert_eq!((status, &refusal["message"]), (400, &json!(message)), "{path}");
    }
    let (status, refusal) =
        tested.send("POST", "/admin/v1/keys/k/ban", r#"{"reason":"a","reason":"b"}"#).await;
    assert_eq!((status, &refusal["code"]), (400, &json!("MALFORMED_JSON")));
    assert_eq!(tested.send("PUT", "/admin/v1/accounts", "").await.1["code"], "METHOD_NOT_ALLOWED");
    assert_eq!(tested.send("GET", "/admin/v1/nothing", "").await.1["code"], "ROUTE_NOT_FOUND");
    assert_eq!(tested.calls(), 0);
}

#[test]
fn a_request_of_a_command_is_an_object() {
    let method = AdminMethod::find("ListBans").unwrap();
    assert!(method.read(&json!({})).is_ok());
    for other in [json!(null), json!([]), json!("x"), json!(5)] {
        assert_eq!(method.read(&other).unwrap_err(), "the request must be an object", "{other}");
    }
}

#[tokio::test]
async fn a_refusal_of_the_core_is_mapped_by_the_error_table() {
    for (reason, expected) in [
        ("ACCOUNT_NOT_FOUND", (404, "ACCOUNT_NOT_FOUND", "said by the core")),
        ("OPERATOR_NOT_PERMITTED", (403, "OPERATOR_NOT_PERMITTED", "said by the core")),
        ("KEY_NOT_ACTIVE", (409, "KEY_NOT_ACTIVE", "said by the core")),
        ("VALIDATION_FAILED", (400, "VALIDATION_FAILED", "said by the core")),
    ] {
        let tested = ApiUnderTest::new(Err(refused(reason)));
        let (status, body) = tested.send("GET", "/admin/v1/accounts/shop", "").await;
        let (code, message) = (body["code"].as_str().unwrap(), body["message"].as_str().unwrap());
        assert_eq!((status, code, message), expected);
        assert_eq!(body["status"], status);
    }
    let tested = ApiUnderTest::new(Err(Status::unimplemented("")));
    for path in ["/admin/v1/bans", "/admin/v1/account-usage", "/admin/v1/account-usage.csv"] {
        let (status, body) = tested.send("GET", path, "").await;
        assert_eq!((status, &body["code"]), (503, &json!("UNAVAILABLE")), "an older core: {path}");
    }
}

#[tokio::test]
async fn without_a_token_the_core_is_not_called() {
    let tested = ApiUnderTest::new(Err(refused("INVALID_OPERATOR_TOKEN")));
    for token in [None, Some("Basic x"), Some("Bearer "), Some("Bearer")] {
        let (status, body) = tested.send_as(token, "GET", "/admin/v1/bans", "").await;
        assert_eq!((status, &body["code"]), (401, &json!("INVALID_OPERATOR_TOKEN")));
    }
    assert_eq!(tested.calls(), 0);
    assert_eq!(tested.send("GET", "/admin/v1/bans", "").await.0, 401);
    assert_eq!(tested.calls(), 1);
}

#[tokio::test]
async fn key_material_is_in_no_message() {
    let tested = ApiUnderTest::new(Err(refused("ACCOUNT_NOT_FOUND")));
    let key = "pet_live_0000000000000000000000000000001PRvVh";
    let (status, body) = tested.send("GET", &format!("/admin/v1/accounts?{key}=1"), "").await;
    assert_eq!((status, &body["message"]), (400, &json!("pet_live_… is not a parameter of this operation")));
}

#[tokio::test]
async fn the_core_gets_digests_of_the_keys_in_a_text_and_no_key() {
    const KEY: &str = "pet_live_0000000000000000000000000000001PRvVh";
    let key = admin::Key { id: "7".into(), state: admin::KeyState::Revoked.into(), ..admin::Key::default() };
    let digest = petstore_caller::api_key::ApiKey::parse(KEY).unwrap().digest().to_hex();
    let found = admin::FoundKey { digest: digest.clone(), key: Some(key) };
    let environment = admin::Environment::Staging.into();
    let tested = ApiUnderTest::answering(&admin::FindKeysResponse { keys: vec![found], environment });
    let text = format!(r#"{{"text":"a {KEY}."}}"#);
    let (status, body) = tested.send("POST", "/admin/v1/keys/find", &text).await;
    let finding = &body["keys"][0];
    assert_eq!((status, &finding["finding"], &finding["lastFour"]), (200, &json!("known"), &json!("RvVh")));
    assert_eq!(finding.get("revokeCommand"), None, "the key is revoked already");
    let (path, _, message) = tested.last::<admin::FindKeysRequest>();
    assert_eq!((path.as_str(), message.digests), ("/petstore.admin.v1.AdminService/FindKeys", vec![digest]));

    let tested = ApiUnderTest::answering(&admin::FindKeysResponse { keys: Vec::new(), environment });
    let (_, body) = tested.send("POST", "/admin/v1/keys/find", &text).await;
    assert_eq!(body["keys"][0]["finding"], "other_environment");
    assert_eq!(
        tested.send("POST", "/admin/v1/keys/find", r#"{"text":""}"#).await,
        (200, json!({ "keys": [] }))
    );
    assert_eq!(tested.calls(), 2, "the core judges every caller");
    let (status, refusal) = tested.send("POST", "/admin/v1/keys/find?x=1", r#"{"text":""}"#).await;
    assert_eq!((status, &refusal["code"]), (400, &json!("INVALID_PARAMETER")), "{refusal}");
}

#[test]
fn a_list_in_a_request_names_the_item_that_is_wrong() {
    let method = AdminMethod::find("FindKeys").unwrap();
    assert!(method.read(&json!({ "digests": ["a", "b"] })).is_ok());
    for (digests, fault) in
        [(json!("a"), "digests must be an array"), (json!(["a", 5]), "digests[1] must be a string")]
    {
        assert_eq!(method.read(&json!({ "digests": digests })).unwrap_err(), fault);
    }
}

#[tokio::test]
async fn limits_are_shown_only_if_the_core_shows_the_account() {
    let tested = ApiUnderTest::answering(&admin::GetAccountResponse { account: Some(account()) });
    let (status, body) = tested.send("GET", "/admin/v1/accounts/shop/limits", "").await;
    assert_eq!(
        (status, &body["minute"]["limit"], &body["day"]["remaining"]),
        (200, &json!(60), &json!(1_000))
    );
    let tested = ApiUnderTest::new(Err(refused("ACCOUNT_NOT_FOUND")));
    assert_eq!(tested.send("GET", "/admin/v1/accounts/shop/limits", "").await.0, 404);
}

#[test]
fn every_method_has_a_path_and_every_field_a_known_kind() {
    let bindings = method::bindings();
    let methods: BTreeSet<_> = bindings.iter().map(|(method, _)| method.name().to_owned()).collect();
    assert!(methods.len() >= 22, "{methods:?}");
    let document = openapi::document();
    for (method, binding) in &bindings {
        assert!(binding.path.starts_with("/admin/v1/"), "{binding:?}");
        let verb = binding.http_method.as_str().to_lowercase();
        let described = &document["paths"][&binding.path][verb];
        assert!(!described["summary"].as_str().unwrap().is_empty(), "{}", method.name());
    }
    let text = document.to_string();
    for reference in text.split("\"$ref\":\"#").skip(1) {
        let pointer = reference.split('"').next().unwrap();
        assert!(document.pointer(pointer).is_some(), "{pointer} leads nowhere");
    }
}

#[test]
fn the_operations_on_accounts_keys_and_bans_are_stable_and_all_others_beta() {
    let document = openapi::document();
    let operations =
        document["paths"].as_object().unwrap().values().flat_map(|path| path.as_object().unwrap());
    let of = |stability| {
        let operations =
            operations.clone().filter(move |(_, operation)| operation["x-stability"] == stability);
        operations.map(|(_, operation)| operation["operationId"].as_str().unwrap()).collect::<BTreeSet<_>>()
    };
    let stable = [
        "createAccount",
        "getAccount",
        "listAccounts",
        "updateAccount",
        "suspendAccount",
        "resumeAccount",
        "createKey",
        "getKey",
        "listKeys",
        "listKeysOfAccount",
        "findKeys",
        "getKeyHandover",
        "rotateKey",
        "revokeKey",
        "createBan",
        "liftBan",
        "listBans",
    ];
    assert_eq!(of("stable"), BTreeSet::from(stable));
    assert_eq!(of("stable").len() + of("beta").len(), operations.count());
}

#[test]
fn the_document_has_every_error_code_with_its_status() {
    let document = openapi_document();
    let documented = document["components"]["responses"]["Error"]["x-error-codes"].as_object().unwrap();
    assert_eq!(documented.len(), AdminErrorReason::all().count());
    for code in AdminErrorReason::all().map(AdminErrorReason::code) {
        let (status, code) = (code.http, &documented[code.name]);
        assert_eq!(code["status"], status.as_u16(), "{code}");
        assert!(code["meaning"].as_str().is_some_and(|meaning| meaning.ends_with('.')), "{code}");
    }
}
