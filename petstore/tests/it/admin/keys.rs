//! Keys as operators look after them: found in a leaked text, followed through a rotation, filtered.

use petstore_caller::api_key::{ApiKey, Environment};
use petstore_testkit::{Plan, Role, TestShop, eventually};
use serde_json::{Value, json};

use super::{REPORT_TIMEOUT, api::operator};
use crate::{ACCOUNT, key_of_new_account, only_key_id, petstore, serve};

/// Keys that do not exist, one of each environment.
const UNKNOWN: &str = "pet_live_0000000000000000000000000000001PRvVh";
const OF_STAGING: &str = "pet_test_00000000000000000000000000000030gV5m";

#[tokio::test]
async fn the_owner_of_a_leaked_key_is_found_in_any_text() {
    let installation = petstore();
    let server = installation.start(&serve(&["--environment", "production", "--log-level", "trace"])).await;
    let key = key_of_new_account(&installation).await;
    let id = only_key_id(&installation, ACCOUNT).await;
    let url = format!("http://{}", server.address("gRPC"));
    let core = ["--core-url", &url, "--operator-token-file", super::FIRST_TOKEN];
    let leak = format!("\0{key}{key}\u{fffd} key={UNKNOWN}&{OF_STAGING}\"pet_live_0 {}", &key[..44]);
    let leak = [leak.as_bytes(), b"\xff\xfe"].concat();
    let find = [["key", "find", "--output", "json"].as_slice(), &core].concat();
    let found = installation.run_with_input(&find, &leak).await;
    assert_eq!(found.code, Some(0), "{found:?}");
    let findings = found.json()["keys"].clone();
    let owner = [&findings[0]["key"]["account"], &findings[0]["key"]["id"], &findings[0]["key"]["state"]];
    assert_eq!(owner, [&json!(ACCOUNT), &json!(id), &json!("active")], "{findings}");
    assert_eq!(findings[0]["revokeCommand"], format!("petstore key revoke {id}"));
    let others = json!([
        { "prefix": "pet_live_", "lastFour": "RvVh", "finding": "unknown" },
        { "prefix": "pet_test_", "lastFour": "gV5m", "finding": "other_environment" },
    ]);
    assert_eq!(json!(findings.as_array().unwrap()[1..]), others);

    // The command does what it says, and a revoked key needs none.
    let command: Vec<_> = findings[0]["revokeCommand"].as_str().unwrap().split(' ').skip(1).collect();
    assert_eq!(installation.run(&command).await.code, Some(0));
    let again = installation.run_with_input(&["key", "find"], &leak).await;
    assert_eq!(again.code, Some(0), "{again:?}");
    assert!(again.stdout.contains("revoked") && !again.stdout.contains("key revoke"), "{}", again.stdout);

    let audit = installation.run(&["audit"]).await;
    let ended = server.terminate().await;
    for text in [&found.stdout, &found.stderr, &again.stdout, &audit.stdout, &ended.stdout, &ended.stderr] {
        for secret in [&key[9..40], &UNKNOWN[9..40], &OF_STAGING[9..40]] {
            assert!(!text.contains(secret), "{text}");
        }
    }
}

#[tokio::test]
async fn a_text_without_a_key_of_the_service_has_exit_code_3() {
    let installation = petstore();
    installation.json(&["migrate", "up"]).await;
    let key = key_of_new_account(&installation).await;
    for (text, code) in [("", 3), ("no key", 3), (&key[1..], 3), (UNKNOWN, 3), (&key, 0)] {
        let found = installation.run_with_input(&["key", "find"], text.as_bytes()).await;
        assert_eq!(found.code, Some(code), "{found:?}");
    }
    let wide = |width: usize, at: usize| -> Vec<u8> {
        key.bytes().flat_map(|byte| (0..width).map(move |index| if index == at { byte } else { 0 })).collect()
    };
    let piece = 1024 * 1024;
    for key in [key.clone().into_bytes(), wide(2, 0), wide(4, 3)] {
        for before in [0, piece - 1, piece, 2 * piece - key.len()] {
            let text = [vec![b'x'; before], key.clone(), b"\n".to_vec()].concat();
            let found = installation.run_with_input(&["key", "find"], &text).await;
            assert_eq!(found.code, Some(0), "{} bytes after {before}: {found:?}", key.len());
        }
    }
    installation.run_with_input(&["key", "find", &key], b"").await.assert_refused(2, &[]);
}

#[tokio::test]
async fn a_viewer_finds_owners_over_the_admin_api_and_a_stranger_does_not() {
    let shop = TestShop::open().await;
    let client = shop.client_on(Plan::Free).await;
    let admin = shop.admin();
    let body = json!({ "text": format!("{UNKNOWN},{}", client.key()) }).to_string();
    let stranger = admin.send("POST", "/admin/v1/keys/find", &[], body.clone()).await;
    stranger.assert_error_body(401, "INVALID_OPERATOR_TOKEN");
    let viewer = admin.with_header("authorization", &operator(&shop, "vera", Role::Viewer).await);
    let found = viewer.send("POST", "/admin/v1/keys/find", &[], body).await;
    found.assert_status(200);
    let findings: Vec<Value> = found.json()["keys"].as_array().unwrap().clone();
    let kinds: Vec<_> = findings.iter().map(|it| (&it["finding"], &it["lastFour"])).collect();
    let last_four = json!(client.key()[41..]);
    assert_eq!(kinds, [(&json!("unknown"), &json!("RvVh")), (&json!("known"), &last_four)]);
    assert_eq!(findings[1]["key"]["state"], "active");
    for body in ["", "{}", r#"{"text":5}"#, r#"{"texts":"x"}"#, r#"{"text":"x","more":1}"#] {
        let refused = viewer.send("POST", "/admin/v1/keys/find", &[], body).await;
        refused.assert_error_body(400, "INVALID_PARAMETER");
    }
    let large = json!({ "text": "x".repeat(64 * 1024) }).to_string();
    viewer.send("POST", "/admin/v1/keys/find", &[], large).await.assert_error_body(413, "BODY_TOO_LARGE");
    // As many keys as fit a body need several calls of the core.
    let many: String =
        (0..1_300).map(|_| ApiKey::generate(Environment::Production).expose().to_owned()).collect();
    let found = viewer.send("POST", "/admin/v1/keys/find", &[], json!({ "text": many }).to_string()).await;
    assert_eq!(found.json()["keys"].as_array().map(Vec::len), Some(1_300));
}

#[tokio::test]
async fn a_rotation_is_followed_from_either_key() {
    let installation = petstore();
    let server = installation.start(&serve(&[])).await;
    let old = key_of_new_account(&installation).await;
    let id = only_key_id(&installation, ACCOUNT).await;
    let unrotated = installation.run(&["key", "handover", &id]).await;
    assert_eq!(unrotated.code, Some(3), "{unrotated:?}");
    let rotated = installation.json(&["key", "rotate", &id]).await;
    let (new_id, new) = (rotated["key"]["id"].as_str().unwrap(), rotated["apiKey"].as_str().unwrap());
    assert_eq!((&rotated["key"]["replaces"], &rotated["oldKey"]["replaces"]), (&json!(id), &json!("")));

    server.client(new).sends(3, "/v1/pets").await;
    server.client(&old).get("/v1/pets").await.assert_status(200);
    let seen = eventually(REPORT_TIMEOUT, async || {
        // Usage is reported every few seconds.
        let seen = installation.run(&["key", "handover", new_id]).await;
        if seen.stdout.contains("(1 of 4 requests in the last hour)") { Ok(seen) } else { Err(seen.stdout) }
    })
    .await;
    assert_eq!(seen.code, Some(4), "{seen:?}");
    assert!(seen.stdout.contains(": not yet safe to revoke, safe if "), "{seen:?}");
    let of_old = installation.run(&["key", "handover", &id, "--output", "json"]).await;
    let answer: Value = serde_json::from_str(&of_old.stdout).unwrap();
    assert_eq!((of_old.code, &answer["newKey"]["id"]), (Some(4), &json!(new_id)));

    installation.json(&["key", "revoke", &id]).await;
    let ended = installation.run(&["key", "handover", new_id]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stdout.ends_with(": the old key is revoked already\n"), "{ended:?}");
}
