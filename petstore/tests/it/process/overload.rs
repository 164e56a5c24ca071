//! More requests than the service can answer in time: it refuses those that would wait for too long.

mod tenfold;

use std::time::Duration;

use petstore_testkit::{Engine, eventually};
use serde_json::json;
use tokio::{sync::mpsc, task::JoinSet, time::timeout};

use crate::{key_of_new_account, key_without_limits, serve, storage::waiting_writes::lockable};

/// Number of writes of one account: three times as many as it may have in flight.
const WRITES: usize = 300;
/// Timeout of a refusal on a busy machine.
const REFUSED_TIMEOUT: Duration = Duration::from_mins(1);

#[tokio::test]
async fn writes_that_would_wait_for_more_than_a_second_are_refused_and_other_accounts_are_served() {
    let (installation, lock) = lockable(Engine::Sqlite).await;
    let server = installation.start(&serve(&[])).await;
    let writer = server.client(&key_without_limits(&installation).await);
    let other = server.client(&key_of_new_account(&installation).await);
    let mut background = JoinSet::new();
    background.spawn(async move { lock.hold().await });
    let (tom, path) = (&json!({"name": "Tom", "categoryId": 2}), "/v1/pets");
    eventually(REFUSED_TIMEOUT, async || match writer.post(path, tom).await {
        added if added.status() == 201 => Err("the pets are not locked".to_owned()),
        _ => Ok(()),
    })
    .await;
    // Those in flight end after a second or more. So most of the others have to wait for two.
    let (refused, mut refusals) = mpsc::channel(WRITES);
    for _ in 0..WRITES {
        let (writer, tom, refused) = (writer.clone(), tom.clone(), refused.clone());
        background.spawn(async move {
            loop {
                let answer = writer.post(path, &tom).await;
                if answer.json()["code"] == "OVERLOADED" {
                    refused.send(answer).await.unwrap();
                    return;
                }
            }
        });
    }
    let refused = timeout(REFUSED_TIMEOUT, refusals.recv()).await.expect("a refusal").unwrap();
    assert_eq!((refused.status(), refused.header("retry-after")), (503, "1"), "{refused:?}");
    let of_other = other.post(path, tom).await;
    assert_ne!(of_other.json()["code"], "OVERLOADED", "{of_other:?}");
    other.get(path).await.assert_status(200);
}
