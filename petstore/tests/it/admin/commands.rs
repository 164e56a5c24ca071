//! Verbs that administer a store.

use petstore_testkit::Installation;
use serde_json::{Value, json};

use crate::{first_client, key_of_new_account, petstore, serve};

#[tokio::test]
async fn keys_and_accounts_are_named_as_they_were_typed() {
    let installation = petstore_with_a_store().await;
    installation.json(&["account", "create", "acme", "--plan", "pro"]).await;
    let created = installation.json(&["key", "create", "--account", "acme"]).await;
    let id = created["key"]["id"].as_str().unwrap();
    for typed in [id.to_owned(), format!("{{{id}}}")] {
        let lifted = installation.run(&["ban", "lift", &typed]).await;
        assert_eq!((lifted.code, lifted.stdout), (Some(0), format!("key {typed} is not banned\n")));
    }
    let renamed = installation.run(&["account", "rename", "acme", "zoo"]).await;
    assert_eq!((renamed.code, renamed.stdout.as_str()), (Some(0), "account acme is now zoo\n"));
}

#[tokio::test]
async fn a_key_is_shown_once_and_never_again() {
    let installation = petstore_with_a_store().await;
    let key = key_of_new_account(&installation).await;
    assert!(key.starts_with("pet_live_") && key.len() == 45, "not a key: {key}");
    for args in [["key", "list", "--account", crate::ACCOUNT].as_slice(), &["account", "list"]] {
        for form in ["text", "json"] {
            let exit = installation.run(&[args, &["--output", form]].concat()).await;
            assert_eq!(exit.code, Some(0), "{exit:?}");
            assert!(!exit.stdout.contains(&key[9..40]), "{exit:?}");
        }
    }
    let listed = installation.json(&["key", "list", "--account", crate::ACCOUNT]).await;
    assert!(listed.to_string().contains(&key[41..]), "the last four characters tell keys apart: {listed}");
}

#[tokio::test]
async fn key_material_that_is_typed_by_mistake_is_refused_and_not_repeated() {
    const KEY: &str = "pet_live_0000000000000000000000000000001PRvVh";
    let installation = petstore_with_a_store().await;
    for args in [
        ["account", "create", KEY, "--plan", "free"].as_slice(),
        &["account", "show", KEY],
        &["account", "list", KEY],
        &["key", "create", "--account", KEY],
        &["key", "revoke", KEY],
        &["key", "list", "--account", KEY],
        &["operator", "create", KEY, "--role", "admin"],
        &["operator", "revoke", KEY, "--yes"],
        &[KEY],
    ] {
        let exit = installation.run(args).await;
        assert_eq!(exit.code, Some(2), "{args:?}: {exit:?}");
        assert!(!exit.stderr.contains(&KEY[9..]), "{args:?}: {exit:?}");
    }
}

#[tokio::test]
async fn a_command_that_reads_does_not_create_a_missing_store() {
    let installation = petstore();
    let exit = installation.run(&["account", "list"]).await;
    exit.assert_refused(1, &[]);
    assert!(!installation.folder().join("data").exists());
}

#[tokio::test]
async fn migrate_down_shows_what_would_be_lost_and_needs_confirmation() {
    let installation = petstore();
    let server = installation.start(&serve(&[])).await;
    let client = first_client(&installation, &server);
    for _ in 0..3 {
        client.post("/v1/pets", &json!({"name": "Rex", "categoryId": 1})).await.assert_status(201);
    }
    server.terminate().await;
    let status = installation.json(&["migrate", "status"]).await;
    let all = status.as_array().unwrap().len().to_string();

    let shown = installation.run(&["migrate", "down", "--steps", &all]).await;
    assert_eq!(shown.code, Some(2), "{shown:?}");
    assert!(shown.stderr.contains("--yes") && shown.stderr.lines().count() == 1, "{shown:?}");
    let row = |table: &str| {
        shown.stdout.lines().find(|line| line.starts_with(&format!("{table} "))).map(str::to_owned)
    };
    assert!(row("pets").is_some_and(|row| row.ends_with(" 3")), "{shown:?}");
    assert!(row("accounts").is_some_and(|row| row.ends_with(" 1")), "{shown:?}");
    let shown = installation.run(&["migrate", "down", "--output", "json"]).await;
    let losses: Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!(losses["migrations"].as_array().map(Vec::len), Some(1), "{losses}");
    assert_eq!(installation.json(&["migrate", "status"]).await, status, "nothing was changed");

    let left = installation.json(&["migrate", "down", "--steps", &all, "--yes"]).await;
    assert!(left.as_array().unwrap().iter().all(|change| change["state"] == "pending"), "{left}");
}

/// Returns an installation with an empty store.
async fn petstore_with_a_store() -> Installation {
    let installation = petstore();
    installation.json(&["migrate", "up"]).await;
    installation
}

#[tokio::test]
async fn a_key_of_the_other_environment_is_not_rotated() {
    let installation = petstore_with_a_store().await;
    installation.json(&["account", "create", "acme", "--plan", "free"]).await;
    let created =
        installation.json(&["key", "create", "--account", "acme", "--environment", "staging"]).await;
    let id = created["key"]["id"].as_str().unwrap_or_else(|| panic!("no id: {created}")).to_owned();
    let rotate = |environment| {
        ["key", "rotate", &id, "--grace", "1h", "--environment", environment].map(str::to_owned)
    };
    let refused = installation.run(&rotate("production").each_ref().map(String::as_str)).await;
    refused.assert_refused(1, &[]);
    assert_eq!(refused.stderr, format!("error: key {id} belongs to staging\n"));
    let rotated = installation.json(&rotate("staging").each_ref().map(String::as_str)).await;
    assert!(rotated["apiKey"].as_str().is_some_and(|key| key.starts_with("pet_test_")), "{rotated}");
}
