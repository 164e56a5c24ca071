//! Verbs that administer a store.

use petstore_core::accounts::Day;
use petstore_testkit::Installation;
use serde_json::{Value, json};

use crate::{FIRST_KEY, PORTS, first_client, key_of_new_account, petstore, serve};

#[tokio::test]
async fn every_result_is_exactly_one_json_document() {
    let installation = petstore_with_a_store().await;
    installation.json(&["account", "create", "acme", "--plan", "pro"]).await;
    let created = installation.json(&["key", "create", "--account", "acme"]).await;
    let id = created["key"]["id"].as_str().unwrap_or_else(|| panic!("no id: {created}")).to_owned();
    for args in [
        ["account", "list"].as_slice(),
        &["account", "set-plan", "acme", "--plan", "business"],
        &["key", "list", "--account", "acme"],
        &["ban", "add", &id, "--for", "1h"],
        &["ban", "list"],
        &["ban", "lift", &id],
        &["usage", "--account", "acme"],
        &["key", "rotate", &id, "--grace", "1h"],
        &["key", "revoke", &id],
        &["migrate", "status"],
        &["migrate", "up"],
    ] {
        installation.json(args).await; // checks that it is JSON
    }
}

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
async fn enterprise_is_refused_without_both_of_its_numbers() {
    let installation = petstore_with_a_store().await;
    for numbers in [
        [].as_slice(),
        &["--per-minute", "7"],
        &["--per-day", "3"],
        &["--per-minute", "0", "--per-day", "3"],
        &["--per-minute", "-1", "--per-day", "3"],
        &["--per-minute", "inf", "--per-day", "3"],
    ] {
        let args = [["account", "create", "big", "--plan", "enterprise"].as_slice(), numbers].concat();
        installation.run(&args).await.assert_refused(2, &[]);
    }
    let numbers = ["account", "create", "small", "--plan", "free", "--per-minute", "7", "--per-day", "3"];
    installation.run(&numbers).await.assert_refused(2, &[]);
    assert_eq!(installation.json(&["account", "list"]).await["accounts"], json!([]));
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
async fn a_rotated_key_has_the_old_lifetime_unless_another_is_given() {
    let installation = petstore_with_a_store().await;
    installation.json(&["account", "create", "acme", "--plan", "pro"]).await;
    let days = |key: &Value| {
        let date = |member: &str| key[member].as_str()?.get(..10).map(str::to_owned);
        let day = |date: String| (20_000..40_000).find(|day| Day(*day).to_string() == date);
        Some(day(date("expireTime")?)? - day(date("createTime")?)?)
    };
    let create = ["key", "create", "--account", "acme"];
    let forever = installation.json(&create).await;
    let limited = installation.json(&[create.as_slice(), &["--expires-in", "90d"]].concat()).await;
    assert_eq!((days(&forever["key"]), days(&limited["key"])), (None, Some(90)));
    let mut id = limited["key"]["id"].as_str().unwrap().to_owned();
    for (flags, expected) in [
        ([].as_slice(), Some(90)),
        (&["--expires-in", "7d"], Some(7)),
        (&["--expires-in", "never"], None),
        (&[], None),
    ] {
        let mut rotated = Value::Null;
        for time in ["first", "second"] {
            rotated = installation.json(&[["key", "rotate", &id].as_slice(), flags].concat()).await;
            assert_eq!(days(&rotated["key"]), expected, "{time} {flags:?}: {rotated}");
        }
        id = rotated["key"]["id"].as_str().unwrap().to_owned();
    }
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
async fn a_failed_command_is_one_line_without_a_result() {
    let installation = petstore_with_a_store().await;
    installation.json(&["account", "create", "acme", "--plan", "pro"]).await;
    for (args, code) in [
        (["account", "create", "acme", "--plan", "free"].as_slice(), 1), // the name is taken
        (&["account", "set-plan", "nobody", "--plan", "free"], 3),
        (&["key", "create", "--account", "nobody"], 3),
        (&["key", "list", "--account", "nobody"], 3),
        (&["key", "revoke", "018f0000-0000-7000-8000-000000000000"], 3),
        (&["ban", "add", "018f0000-0000-7000-8000-000000000000", "--for", "1h"], 3),
        (&["ban", "lift", "018f0000-0000-7000-8000-000000000000"], 3),
        (&["ban", "list", "--redis-url", "redis://127.0.0.1:1"], 2), // bans are in the store
        (&["usage", "--account", "nobody"], 3),
        (&["account", "create", "acme", "--plan", "gold"], 2),
        (&["account", "create", "not a name", "--plan", "free"], 2),
        (&["key", "revoke", "not-an-id"], 2),
        (&["ban", "lift", "not-an-id"], 2),
        (&["ban", "add", "018f0000-0000-7000-8000-000000000000", "--for", "0s"], 2),
        (&["ban", "add", "018f0000-0000-7000-8000-000000000000", "--for", "367d"], 2),
        (&["usage", "--account", "acme", "--admin-url", "http://127.0.0.1:1"], 2), // it asks the core alone
        (&["key", "create", "--account", "acme", "--expires-in", "soon"], 2),
        (&["key", "create"], 2),
        (&["accounts"], 2),
    ] {
        let exit = installation.run(args).await;
        assert_eq!(exit.code, Some(code), "{args:?}: {exit:?}");
        exit.assert_refused(code, &[]);
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
async fn a_command_creates_accounts_while_the_service_runs() {
    let installation = petstore();
    let server = installation.start(&PORTS).await;
    let key = key_of_new_account(&installation).await;
    server.client(&key).get("/v1/pets").await.assert_status(200);
    let used = installation.json(&["account", "list"]).await;
    assert_eq!(used["accounts"].as_array().map(Vec::len), Some(2), "first, and the new one: {used}");
    first_client(&installation, &server).get("/v1/pets").await.assert_status(200);
    assert!(!used.to_string().contains(installation.read(FIRST_KEY).trim()));
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
