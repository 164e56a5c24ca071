//! `POST /v1/pets`.

use petstore_testkit::{Plan, TestShop, raw};
use serde_json::{Value, json};

use crate::pets::{add, created};

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
async fn ids_are_assigned_upward_from_one() {
    let shop = TestShop::open().await;
    let client = shop.client_on(Plan::Free).await;
    let ids = add(&client, 3).await;
    assert_eq!(ids[0], 1);
    assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
}

#[tokio::test]
async fn an_omitted_status_stays_omitted() {
    let shop = TestShop::open().await;
    let client = shop.client_on(Plan::Free).await;
    let answer = client.post("/v1/pets", &json!({"name": "Rex", "categoryId": 7})).await;
    let id = created(&answer);
    assert_eq!(answer.json(), json!({"id": id, "name": "Rex", "categoryId": 7}), "{answer:?}");
    assert_eq!(client.get(&format!("/v1/pets/{id}")).await.json(), answer.json());
}

#[tokio::test]
async fn every_int64_is_a_valid_category_and_returned_exactly() {
    let shop = TestShop::open().await;
    let client = shop.client_on(Plan::Free).await;
    for category in [i64::MIN, -1, 0, 1, 9_007_199_254_740_993, i64::MAX] {
        let answer =
            client.post_text("/v1/pets", &format!(r#"{{"name":"Rex","categoryId":{category}}}"#)).await;
        let id = created(&answer);
        assert!(answer.text().contains(&format!(r#""categoryId":{category}"#)), "{answer:?}");
        let fetched = client.get(&format!("/v1/pets/{id}")).await;
        assert_eq!(fetched.json()["categoryId"].as_i64(), Some(category), "{fetched:?}");
    }
}

#[tokio::test]
async fn a_category_that_is_not_an_int64_number_is_refused() {
    let shop = TestShop::open().await;
    let client = shop.client_on(Plan::Free).await;
    for category in [
        "9223372036854775808",
        "-9223372036854775809",
        "1.0",
        "1e2",
        "1E0",
        "0.5",
        "1e400",
        "\"1\"",
        "null",
        "true",
        "[1]",
        "{}",
        "123456789012345678901234567890",
    ] {
        let answer =
            client.post_text("/v1/pets", &format!(r#"{{"name":"Rex","categoryId":{category}}}"#)).await;
        answer.assert_error(400, "VALIDATION_FAILED");
        assert!(answer.message().contains("categoryId"), "{category}: {answer:?}");
        assert!(!answer.message().contains("name"), "the name is right: {answer:?}");
    }
}

#[tokio::test]
async fn a_name_keeps_its_code_points() {
    let shop = TestShop::open().await;
    let client = shop.client_on(Plan::Free).await;
    let emoji = "🦊".repeat(255);
    for name in [
        "x",
        " Rex ",
        "Re\u{301}x",
        "R\u{e9}x",
        "\"quoted\\\"",
        "名前",
        "\u{200d}",
        "\u{2028}x",
        "\u{feff}x",
        &emoji,
    ] {
        let answer = client.post("/v1/pets", &json!({"name": name, "categoryId": 1})).await;
        let id = created(&answer);
        assert_eq!(answer.json()["name"], json!(name), "{answer:?}");
        assert_eq!(client.get(&format!("/v1/pets/{id}")).await.json()["name"], json!(name));
    }
}

#[tokio::test]
async fn an_escaped_name_is_unescaped() {
    let shop = TestShop::open().await;
    let client = shop.client_on(Plan::Free).await;
    let answer = client.post_text("/v1/pets", r#"{"n\u0061me":"\ud83e\udd8a\u0041\/","categoryId":1}"#).await;
    created(&answer);
    assert_eq!(answer.json()["name"], json!("🦊A/"), "{answer:?}");
}

#[tokio::test]
async fn a_name_that_is_blank_too_long_or_holds_a_control_character_is_refused() {
    let shop = TestShop::open().await;
    let client = shop.client_on(Plan::Free).await;
    let long = "x".repeat(256);
    for name in [
        "",
        " ",
        "\u{a0}",
        "\u{2003}\u{3000}",
        "\u{85}",
        "\t",
        "a\u{0}",
        "a\nb",
        "a\u{7f}",
        "a\u{85}b",
        "\u{1b}[31m",
        &long,
    ] {
        let answer = client.post("/v1/pets", &json!({"name": name, "categoryId": 1})).await;
        answer.assert_error(400, "VALIDATION_FAILED");
        assert!(answer.message().contains("name"), "{name:?}: {answer:?}");
    }
}

#[tokio::test]
async fn a_status_that_is_not_one_of_the_three_is_refused() {
    let shop = TestShop::open().await;
    let client = shop.client_on(Plan::Free).await;
    for status in [
        json!("lost"),
        json!("Sold"),
        json!(""),
        json!("unspecified"),
        json!(null),
        json!(1),
        json!(["sold"]),
    ] {
        let answer =
            client.post("/v1/pets", &json!({"name": "Rex", "categoryId": 1, "status": status})).await;
        answer.assert_error(400, "VALIDATION_FAILED");
        assert!(answer.message().contains("status"), "{status}: {answer:?}");
    }
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
async fn every_wrong_value_is_named_in_one_message() {
    let shop = TestShop::open().await;
    let client = shop.client_on(Plan::Free).await;
    let answer = client.post("/v1/pets", &json!({"name": " ", "categoryId": 1, "status": "lost"})).await;
    answer.assert_error(400, "VALIDATION_FAILED");
    for member in ["name", "status"] {
        assert!(answer.message().contains(member), "{answer:?}");
    }
}

#[tokio::test]
async fn a_body_that_is_json_but_no_object_is_refused() {
    let shop = TestShop::open().await;
    let client = shop.client_on(Plan::Free).await;
    for body in ["[]", "null", "1", "\"Rex\"", "true", r#"[{"name":"Rex","categoryId":1}]"#] {
        client.post_text("/v1/pets", body).await.assert_error(400, "VALIDATION_FAILED");
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
async fn a_body_that_is_not_strict_json_is_refused() {
    let shop = TestShop::open().await;
    let client = shop.client_on(Plan::Pro).await;
    let bodies: [&[u8]; 26] = [
        b"",
        b" ",
        b"{",
        br#"{"name":"Rex","categoryId":1"#,
        br#"{"name":"Rex","categoryId":1,}"#,
        br#"{"name":"Rex" "categoryId":1}"#,
        br#"{"name":"Rex","categoryId":1} x"#,
        br#"{"name":"Rex","categoryId":1}{}"#,
        br#"{"name":"Rex","name":"Rex","categoryId":1}"#,
        br#"{"name":"Rex","n\u0061me":"Rex","categoryId":1}"#,
        br#"{"name":"Rex","categoryId":1,"x":1,"x":1}"#,
        br#"{"name":"Rex","categoryId":1,"x":{"y":1,"y":1}}"#,
        br#"{"name":"Rex","categoryId":1,"x":[{"y":1,"y":1}]}"#,
        br#"{"name":"\ud800","categoryId":1}"#,
        br#"{"name":"\udc00\ud800","categoryId":1}"#,
        br#"{"name":"Rex","categoryId":1,"x":"\ud800"}"#,
        br#"{"name":"Rex","categoryId":1,"\udfff":1}"#,
        b"{\"name\":\"\xff\",\"categoryId\":1}",
        b"{\"name\":\"Rex\",\"categoryId\":1,\"x\":\"\xc0\x80\"}",
        b"{\"name\":\"\xed\xa0\x80\",\"categoryId\":1}",
        b"\xef\xbb\xbf{\"name\":\"Rex\",\"categoryId\":1}",
        b"{\"name\":\"a\nb\",\"categoryId\":1}",
        br#"{"name":"Rex","categoryId":01}"#,
        br#"{"name":"Rex","categoryId":NaN}"#,
        br#"{name:"Rex","categoryId":1}"#,
        br#"{"name":"Rex","categoryId":1,"x":1.}"#,
    ];
    for body in bodies {
        let answer = client.send("POST", "/v1/pets", &[("content-type", "application/json")], body).await;
        assert_eq!(answer.status(), 400, "{}: {answer:?}", String::from_utf8_lossy(body));
        answer.assert_error(400, "MALFORMED_JSON");
    }
    assert_eq!(client.get("/v1/pets").await.text(), "[]");
}

#[tokio::test]
async fn nesting_is_limited_to_64_even_in_unknown_members() {
    let shop = TestShop::open().await;
    let client = shop.client_on(Plan::Free).await;
    let nested = |depth: usize| {
        let (open, close) = ("[".repeat(depth - 1), "]".repeat(depth - 1)); // the object itself is one
        format!(r#"{{"name":"Rex","categoryId":1,"x":{open}{close}}}"#)
    };
    created(&client.post_text("/v1/pets", &nested(64)).await);
    client.post_text("/v1/pets", &nested(65)).await.assert_error(400, "MALFORMED_JSON");
    client.post_text("/v1/pets", &"[".repeat(60_000)).await.assert_error(400, "MALFORMED_JSON");
    client.post_text("/v1/pets", &"{\"a\":".repeat(10_000)).await.assert_error(400, "MALFORMED_JSON");
}

#[tokio::test]
async fn the_media_type_of_json_is_optional_and_case_insensitive() {
    let shop = TestShop::open().await;
    let client = shop.client_on(Plan::Free).await;
    let body = json!({"name": "Rex", "categoryId": 1}).to_string();
    for media_type in [
        "application/json",
        "Application/JSON",
        "application/json; charset=utf-8",
        "application/json;charset=\"UTF-8\"",
        "application/json ; charset=UTF-8",
    ] {
        let answer = client.send("POST", "/v1/pets", &[("content-type", media_type)], body.clone()).await;
        assert_eq!(answer.status(), 201, "{media_type}: {answer:?}");
    }
    client.send("POST", "/v1/pets", &[], body).await.assert_status(201);
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

#[tokio::test]
async fn a_body_of_64_kib_is_read_and_a_larger_one_refused() {
    let shop = TestShop::open().await;
    let client = shop.client_on(Plan::Free).await;
    let body = |len: usize| {
        let pet = r#"{"name":"Rex","categoryId":1}"#;
        format!("{pet}{}", " ".repeat(len - pet.len()))
    };
    created(&client.post_text("/v1/pets", &body(65_536)).await);
    client.post_text("/v1/pets", &body(65_537)).await.assert_error(413, "BODY_TOO_LARGE");
    client.post_text("/v1/pets", &body(1_000_000)).await.assert_error(413, "BODY_TOO_LARGE");
}

#[tokio::test]
async fn a_wrong_media_type_is_reported_before_a_body_that_is_too_large() {
    let shop = TestShop::open().await;
    let client = shop.client_on(Plan::Free).await;
    let answer = client.send("POST", "/v1/pets", &[("content-type", "text/plain")], " ".repeat(65_537)).await;
    answer.assert_error(415, "UNSUPPORTED_MEDIA_TYPE");
}

#[tokio::test]
async fn a_refused_pet_is_not_stored() {
    let shop = TestShop::open().await;
    let client = shop.client_on(Plan::Free).await;
    let bad: [Value; 3] = [json!({"name": "", "categoryId": 1}), json!({"name": "Rex"}), json!([])];
    for body in bad {
        client.post("/v1/pets", &body).await.assert_status(400);
    }
    assert_eq!(client.get("/v1/pets").await.text(), "[]");
}
