//! `POST /v1/pets`.

use petstore_testkit::{Plan, TestShop, raw};
use serde_json::json;

use crate::pets::created;

#[tokio::test]
async fn a_created_pet_is_returned_with_its_id_and_location() {
    let shop = TestShop::open().await;
    let client = shop.client_on(Plan::Free).await;
    let answer = client.post("/v1/pets", &json!({"name": "Rex", "categoryId": 7, "status": "pending"})).await;
    let id = created(&answer);
    assert_eq!(answer.header("content-type"), "application/json", "{answer:?}");
    assert_eq!(
        answer.json(),
        json!({"id": id, "name": "Rex", "categoryId": 7, "status": "pending"}),
        "{answer:?}"
    );
    assert_eq!(answer.header("location"), format!("/v1/pets/{id}"), "{answer:?}");
    let fetched = client.get(answer.header("location")).await;
    assert_eq!(fetched.assert_status(200).json(), answer.json());
}

#[tokio::test]
async fn every_missing_or_mistyped_member_is_named_in_one_message() {
    let shop = TestShop::open().await;
    let client = shop.client_on(Plan::Free).await;
    for (body, named) in [
        (r"{}", ["name", "categoryId"].as_slice()),
        (r#"{"categoryId":1}"#, &["name"]),
        (r#"{"name":"Rex"}"#, &["categoryId"]),
        (r#"{"Name":"Rex","category_id":1}"#, &["name", "categoryId"]),
        (r#"{"name":1,"categoryId":"1","status":2}"#, &["name", "categoryId", "status"]),
        (r#"{"name":null,"categoryId":null,"status":null}"#, &["name", "categoryId", "status"]),
    ] {
        let answer = client.post_text("/v1/pets", body).await;
        answer.assert_error(400, "VALIDATION_FAILED");
        for member in ["name", "categoryId", "status"] {
            let expected = named.contains(&member);
            assert_eq!(answer.message().contains(member), expected, "{member} of {body}: {answer:?}");
        }
    }
}

#[tokio::test]
async fn unknown_members_are_ignored_and_so_is_a_clients_id() {
    let shop = TestShop::open().await;
    let client = shop.client_on(Plan::Free).await;
    let body =
        json!({"id": 99, "name": "Rex", "categoryId": 1, "tag": {"a": [null, 1.5e3]}, "category_id": 5});
    let answer = client.post("/v1/pets", &body).await;
    assert_eq!(created(&answer), 1, "{answer:?}");
    assert_eq!(answer.json(), json!({"id": 1, "name": "Rex", "categoryId": 1}), "{answer:?}");
}

#[tokio::test]
async fn another_media_type_or_an_encoded_body_is_refused_before_it_is_read() {
    let shop = TestShop::open().await;
    let client = shop.client_on(Plan::Free).await;
    for fields in [
        [("content-type", "text/plain")].as_slice(),
        &[("content-type", "application/x-www-form-urlencoded")],
        &[("content-type", "application/jsonx")],
        &[("content-type", "application/problem+json")],
        &[("content-type", "application/json; charset=iso-8859-1")],
        &[("content-type", "application/json;charset = utf-16")],
        &[("content-type", "")],
        &[("content-type", "text/plain"), ("content-type", "application/json")],
        &[("content-type", "text/plain"), ("content-encoding", "gzip")],
    ] {
        let answer = client.send("POST", "/v1/pets", fields, "not even JSON").await;
        answer.assert_error(415, "UNSUPPORTED_MEDIA_TYPE");
        assert!(answer.message().contains("Content-Type: application/json"), "{answer:?}");
        assert_eq!(answer.header("accept"), "application/json", "{fields:?}");
        assert_eq!(answer.find("accept-encoding"), None, "{fields:?}");
    }
    for fields in [
        [("content-type", "application/json"), ("content-encoding", "gzip")].as_slice(),
        &[("content-encoding", "br")],
    ] {
        let answer = client.send("POST", "/v1/pets", fields, "not even JSON").await;
        answer.assert_error(415, "UNSUPPORTED_MEDIA_TYPE");
        assert!(answer.message().contains("Content-Encoding"), "{answer:?}");
        assert_eq!(answer.header("accept-encoding"), "identity", "{fields:?}");
        assert_eq!(answer.find("accept"), None, "{fields:?}");
    }
    let without_its_body = format!(
        "POST /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {}\r\nContent-Type: text/plain\r\n\
         Content-Length: 9\r\n\r\n",
        client.key()
    );
    let answer = raw::answer(&raw::exchange(client.address(), without_its_body.as_bytes()).await);
    answer.assert_error(415, "UNSUPPORTED_MEDIA_TYPE");
}
