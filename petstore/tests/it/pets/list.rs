//! `GET /v1/pets`.

use std::collections::BTreeSet;

use petstore_testkit::{Answer, Plan, TestShop};
use proptest::prelude::*;
use serde_json::json;

use crate::pets::{add, add_with_status, ids, next_link};

#[tokio::test]
async fn an_empty_store_lists_an_empty_array() {
    let shop = TestShop::open().await;
    let answer = shop.client_on(Plan::Free).await.get("/v1/pets").await;
    answer.assert_status(200);
    assert_eq!(answer.header("content-type"), "application/json");
    assert_eq!(answer.text(), "[]");
    assert_eq!(answer.values("link"), [""; 0], "there is no other page: {answer:?}");
}

#[tokio::test]
async fn pets_are_listed_in_ascending_order_with_exactly_their_members() {
    let shop = TestShop::open().await;
    let client = shop.client_on(Plan::Free).await;
    let rex =
        client.post("/v1/pets", &json!({"name": "Rex", "categoryId": 7, "status": "sold"})).await.json();
    let tom = client.post("/v1/pets", &json!({"name": "Tom", "categoryId": -1})).await.json();
    let answer = client.get("/v1/pets").await;
    answer.assert_status(200);
    assert_eq!(
        answer.json(),
        json!([
            {"id": rex["id"], "name": "Rex", "categoryId": 7, "status": "sold"},
            {"id": tom["id"], "name": "Tom", "categoryId": -1},
        ]),
        "{answer:?}"
    );
    assert!(rex["id"].as_i64() < tom["id"].as_i64(), "{rex} {tom}");
}

#[tokio::test]
async fn a_page_has_twenty_pets_unless_a_limit_from_1_to_100_is_given() {
    let shop = TestShop::open().await;
    let client = shop.client_on(Plan::Business).await;
    add(&client, 101).await;
    for (query, count) in
        [("", 20), ("?limit=1", 1), ("?limit=21", 21), ("?limit=100", 100), ("?limit=%31%30", 10)]
    {
        let answer = client.get(&format!("/v1/pets{query}")).await;
        answer.assert_status(200);
        assert_eq!(ids(&answer).len(), count, "{query}: {answer:?}");
    }
}

#[tokio::test]
async fn a_status_restricts_the_list_to_pets_that_have_it() {
    let shop = TestShop::open().await;
    let client = shop.client_on(Plan::Free).await;
    add(&client, 1).await; // without a status: in no filtered list
    for status in ["available", "pending", "sold"] {
        let wanted = add_with_status(&client, 2, status).await;
        let answer = client.get(&format!("/v1/pets?status={status}")).await;
        answer.assert_status(200);
        assert_eq!(ids(&answer), wanted, "{answer:?}");
    }
}

#[tokio::test]
async fn a_walk_along_the_next_links_sees_every_pet_once_and_in_order() {
    let shop = TestShop::open().await;
    let client = shop.client_on(Plan::Pro).await;
    let wanted = add(&client, 45).await;
    let mut seen = Vec::new();
    let mut path = "/v1/pets?limit=20".to_owned();
    for (page, count) in [20, 20, 5].into_iter().enumerate() {
        let answer = client.get(&path).await;
        answer.assert_status(200);
        assert_eq!(ids(&answer).len(), count, "{answer:?}");
        seen.extend(ids(&answer));
        assert_eq!(has_first(&answer), page > 0, "rel=first is for later pages: {answer:?}");
        match next_link(&answer) {
            Some(next) => path = next,
            None => assert_eq!(page, 2, "more rows exist, but no next page: {answer:?}"),
        }
        assert_eq!(answer.find("x-next-cursor").is_some(), page < 2, "{answer:?}");
    }
    assert_eq!(seen, wanted);
}

#[tokio::test]
async fn the_first_link_keeps_the_status_of_the_cursor() {
    let shop = TestShop::open().await;
    let client = shop.client_on(Plan::Free).await;
    add(&client, 1).await;
    add_with_status(&client, 5, "sold").await;
    let first = client.get("/v1/pets?limit=2&status=sold").await;
    let second = client.get(&format!("/v1/pets?limit=2&cursor={}", first.header("x-next-cursor"))).await;
    let back = client.get(&crate::pets::link(&second, "first").expect("rel=first")).await;
    assert_eq!(ids(&back), ids(&first), "{second:?}");
    let third = client.get(&next_link(&second).expect("rel=next")).await;
    assert_eq!(ids(&third).len(), 1, "{third:?}");
}

#[tokio::test]
async fn a_cursor_keeps_its_status_and_accepts_another_limit() {
    let shop = TestShop::open().await;
    let client = shop.client_on(Plan::Free).await;
    let mut sold = add_with_status(&client, 2, "sold").await;
    add_with_status(&client, 2, "available").await;
    sold.extend(add_with_status(&client, 3, "sold").await);
    let cursor = cursor_of(&client.get("/v1/pets?limit=1&status=sold").await);
    for query in [format!("cursor={cursor}&limit=3"), format!("cursor={cursor}&limit=3&status=sold")] {
        let answer = client.get(&format!("/v1/pets?{query}")).await;
        answer.assert_status(200);
        assert_eq!(ids(&answer), sold[1..4], "{query}: {answer:?}");
    }
    client
        .get(&format!("/v1/pets?cursor={cursor}&status=available"))
        .await
        .assert_error(400, "INVALID_CURSOR");
}

#[tokio::test]
async fn head_returns_the_fields_of_get_without_a_body() {
    let shop = TestShop::open().await;
    let client = shop.client_on(Plan::Free).await;
    add(&client, 3).await;
    let get = client.get("/v1/pets?limit=2").await;
    let head = client.send("HEAD", "/v1/pets?limit=2", &[], "").await;
    head.assert_status(200);
    assert_eq!(head.body(), b"", "{head:?}");
    for name in ["content-type", "link", "x-next-cursor", "cache-control"] {
        assert_eq!(head.find(name), get.find(name), "{name} {head:?}");
    }
    let refused = client.send("HEAD", "/v1/pets?limit=0", &[], "").await;
    refused.assert_status(400);
    assert_eq!(refused.body(), b"", "{refused:?}");
}

proptest! {
    // Each case is a whole service: few, but each with its own mix of page sizes and insertions.
    #![proptest_config(ProptestConfig { cases: 8, ..ProptestConfig::default() })]

    #[test]
    fn a_walk_sees_every_earlier_pet_exactly_once(
        before in 0_usize..25,
        pages in proptest::collection::vec((1_usize..8, 0_usize..3), 1..6),
    ) {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let (wanted, seen) = runtime.block_on(walk_while_others_insert(before, &pages));
        let distinct: BTreeSet<i64> = seen.iter().copied().collect();
        prop_assert_eq!(distinct.len(), seen.len(), "seen twice: {:?}", seen);
        prop_assert!(wanted.iter().all(|id| distinct.contains(id)), "{:?} lacks some of {:?}", seen, wanted);
    }
}

/// Returns the pets that were there before, and those that a walk with these page sizes saw while others were
/// added.
async fn walk_while_others_insert(before: usize, pages: &[(usize, usize)]) -> (Vec<i64>, Vec<i64>) {
    let shop = TestShop::open().await;
    let client = shop.client_on(Plan::Business).await;
    let wanted = add(&client, before).await;
    let mut seen = Vec::new();
    let mut cursor: Option<String> = None;
    for (limit, inserts) in pages.iter().cycle().take(200) {
        let after = cursor.map_or_else(String::new, |cursor| format!("&cursor={cursor}"));
        let answer = client.get(&format!("/v1/pets?limit={limit}{after}")).await;
        answer.assert_status(200);
        seen.extend(ids(&answer));
        // Fewer inserts than rows on a page in the long run, so that the walk ends.
        add(&client, if seen.len() < 60 { *inserts } else { 0 }).await;
        cursor = answer.find("x-next-cursor").map(str::to_owned);
        if cursor.is_none() {
            return (wanted, seen);
        }
    }
    panic!("the walk does not end: {seen:?}");
}

fn cursor_of(answer: &Answer) -> String {
    answer.header("x-next-cursor").to_owned()
}

fn has_first(answer: &Answer) -> bool {
    crate::pets::link(answer, "first").is_some()
}
