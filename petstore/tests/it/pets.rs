//! Operations on pets: one file per operation, on either edge, and per command for files of pets.

mod batch_create;
mod brownouts;
mod create;
mod export_command;
mod get;
mod get_deprecation;
mod idempotency;
mod import_command;
mod import_over_grpc;
mod list;
mod parity;
mod unknown_input;

use petstore_testkit::{Answer, Client};
use serde_json::json;

/// Adds `count` pets without a status. Returns their ids, in order.
pub(crate) async fn add(client: &Client, count: usize) -> Vec<i64> {
    let mut ids = Vec::new();
    for number in 0..count {
        ids.push(created(
            &client.post("/v1/pets", &json!({"name": format!("Pet {number}"), "categoryId": 1})).await,
        ));
    }
    ids
}

/// Adds `count` pets with this status. Returns their ids, in order.
pub(crate) async fn add_with_status(client: &Client, count: usize, status: &str) -> Vec<i64> {
    let mut ids = Vec::new();
    for _ in 0..count {
        let pet = json!({"name": "Rex", "categoryId": 1, "status": status});
        ids.push(created(&client.post("/v1/pets", &pet).await));
    }
    ids
}

/// Returns the id of the pet that was created.
#[track_caller]
pub(crate) fn created(answer: &Answer) -> i64 {
    answer.assert_status(201);
    answer.json()["id"].as_i64().unwrap_or_else(|| panic!("no int64 id: {answer:?}"))
}

/// Returns the ids of a page, in its order.
#[track_caller]
pub(crate) fn ids(answer: &Answer) -> Vec<i64> {
    let page = answer.json();
    let pets = page.as_array().unwrap_or_else(|| panic!("not an array: {answer:?}"));
    pets.iter().map(|pet| pet["id"].as_i64().unwrap_or_else(|| panic!("no int64 id: {answer:?}"))).collect()
}

/// Returns the target of the `Link` field with `rel="next"`, as a path on this service.
#[track_caller]
pub(crate) fn next_link(answer: &Answer) -> Option<String> {
    link(answer, "next")
}

/// Returns the target of the `Link` with this relation, as a path on this service (RFC 8288).
#[track_caller]
pub(crate) fn link(answer: &Answer, relation: &str) -> Option<String> {
    let links = answer.values("link").join(", ");
    let found = links.split(", ").find(|link| link.ends_with(&format!("; rel=\"{relation}\"")))?;
    let target = found.split_once('>')?.0.strip_prefix('<')?;
    Some(target[target.find("/v1/").unwrap_or_else(|| panic!("leads elsewhere: {answer:?}"))..].to_owned())
}
