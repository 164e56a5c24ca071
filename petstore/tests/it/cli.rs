//! Verbs that administer a store.

use petstore_core::domain::Day;
use petstore_testkit::{Exit, Installation};
use serde_json::{Value, json};

use crate::{FIRST_KEY, PORTS, first_client, key_of_new_account, petstore};

#[tokio::test]
async fn every_result_is_exactly_one_json_document() {
    let installation = petstore_with_a_store().await;
    json(&installation, &["account", "create", "acme", "--plan", "pro"]).await;
    let created = json(&installation, &["key", "create", "--account", "acme"]).await;
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
        json(&installation, args).await; // checks that it is JSON
    }
}

#[tokio::test]
async fn an_account_has_the_plan_that_it_was_given() {
    let installation = petstore_with_a_store().await;
    json(&installation, &["account", "create", "acme", "--plan", "pro"]).await;
    json(
        &installation,
        &["account", "create", "big", "--plan", "enterprise", "--per-minute", "7", "--per-day", "3"],
    )
    .await;
    json(&installation, &["account", "set-plan", "acme", "--plan", "business"]).await;
    let listed = json(&installation, &["account", "list"]).await;
    let mut accounts: Vec<Value> = listed["accounts"].as_array().unwrap().clone();
    accounts.sort_by_key(|account| account["name"].as_str().unwrap_or_default().to_owned());
    let seen: Vec<Value> = accounts
        .iter()
        .map(|account| {
            json!([
                account["name"],
                account["plan"],
                account["limits"]["perMinute"],
                account["limits"]["perDay"]
            ])
        })
        .collect();
    assert_eq!(
        seen,
        [json!(["acme", "business", 1_000, 100_000]), json!(["big", "enterprise", 7, 3])],
        "{listed}"
    );
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
        assert_refused(&installation.run(&args).await, 2);
    }
    let numbers = ["account", "create", "small", "--plan", "free", "--per-minute", "7", "--per-day", "3"];
    assert_refused(&installation.run(&numbers).await, 2);
    assert_eq!(json(&installation, &["account", "list"]).await["accounts"], json!([]));
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
    let listed = json(&installation, &["key", "list", "--account", crate::ACCOUNT]).await;
    assert!(listed.to_string().contains(&key[41..]), "the last four characters tell keys apart: {listed}");
}

#[tokio::test]
async fn a_rotated_key_has_the_lifetime_of_the_old_one_unless_another_is_said() {
    let installation = petstore_with_a_store().await;
    json(&installation, &["account", "create", "acme", "--plan", "pro"]).await;
    let days = |key: &Value| {
        let date = |member: &str| key[member].as_str()?.get(..10).map(str::to_owned);
        let day = |date: String| (20_000..40_000).find(|day| Day(*day).to_string() == date);
        Some(day(date("expireTime")?)? - day(date("createTime")?)?)
    };
    let create = ["key", "create", "--account", "acme"];
    let forever = json(&installation, &create).await;
    let limited = json(&installation, &[create.as_slice(), &["--expires-in", "90d"]].concat()).await;
    assert_eq!((days(&forever["key"]), days(&limited["key"])), (None, Some(90)));
    let mut id = limited["key"]["id"].as_str().unwrap().to_owned();
    for (flags, expected) in [
        ([].as_slice(), Some(90)),
        (&["--expires-in", "7d"], Some(7)),
        (&["--expires-in", "never"], None),
        (&[], None),
    ] {
        let rotated = json(&installation, &[["key", "rotate", &id].as_slice(), flags].concat()).await;
        assert_eq!(days(&rotated["key"]), expected, "{flags:?}: {rotated}");
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
async fn what_cannot_be_done_is_one_line_and_no_result() {
    let installation = petstore_with_a_store().await;
    json(&installation, &["account", "create", "acme", "--plan", "pro"]).await;
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
        assert_refused(&exit, code);
    }
}

#[tokio::test]
async fn a_missing_store_is_not_made_by_looking_at_it() {
    let installation = petstore();
    let exit = installation.run(&["account", "list"]).await;
    assert_refused(&exit, 1);
    assert!(!installation.folder().join("data").exists());
}

#[tokio::test]
async fn an_administered_account_is_served_while_the_service_runs() {
    let installation = petstore();
    let server = installation.start(&PORTS).await;
    let key = key_of_new_account(&installation).await;
    server.client(&key).get("/v1/pets").await.assert_status(200);
    let used = json(&installation, &["account", "list"]).await;
    assert_eq!(used["accounts"].as_array().map(Vec::len), Some(2), "first, and the new one: {used}");
    first_client(&installation, &server).get("/v1/pets").await.assert_status(200);
    assert!(!used.to_string().contains(installation.read(FIRST_KEY).trim()));
}

#[tokio::test]
async fn help_and_version_go_to_stdout() {
    let installation = petstore();
    for args in [["--help"].as_slice(), &["--version"], &["serve", "--help"], &["key", "create", "--help"]] {
        let exit = installation.run(args).await;
        assert_eq!((exit.code, exit.stderr.as_str()), (Some(0), ""), "{args:?}: {exit:?}");
        assert!(!exit.stdout.is_empty(), "{args:?}");
    }
}

#[tokio::test]
async fn changes_are_taken_back_only_when_that_is_confirmed_and_what_would_go_is_shown() {
    let installation = petstore();
    let server = installation.start(&[["serve"].as_slice(), &PORTS].concat()).await;
    let client = first_client(&installation, &server);
    for _ in 0..3 {
        client.post("/v1/pets", &json!({"name": "Rex", "categoryId": 1})).await.assert_status(201);
    }
    server.terminate().await;
    let status = json(&installation, &["migrate", "status"]).await;
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
    assert_eq!(json(&installation, &["migrate", "status"]).await, status, "nothing was changed");

    let left = json(&installation, &["migrate", "down", "--steps", &all, "--yes"]).await;
    assert!(left.as_array().unwrap().iter().all(|change| change["state"] == "pending"), "{left}");
}

#[tokio::test]
async fn a_mistyped_command_flag_or_variable_is_told_what_was_meant() {
    let installation = petstore();
    for (args, meant) in [
        (["serv"].as_slice(), "did you mean serve?"),
        (&["account", "lst"], "did you mean list?"),
        (&["serve", "--htp-addr", "127.0.0.1:0"], "did you mean --http-addr?"),
        (&["account", "create", "a", "--plan", "fre"], "did you mean free?"),
    ] {
        let exit = installation.run(args).await;
        assert_refused(&exit, 2);
        assert!(exit.stderr.contains(meant), "{exit:?}");
    }
    let installation = petstore().with_variable("PETSTORE_HTP_ADDR", "127.0.0.1:1");
    let warning = "PETSTORE_HTP_ADDR is set, but is not a setting: did you mean PETSTORE_HTTP_ADDR?";
    let exit = installation.run(&["migrate", "up"]).await;
    assert_eq!((exit.code, exit.stderr.as_str()), (Some(0), format!("warning: {warning}\n").as_str()));
    let server = installation.start(&PORTS).await;
    assert!(server.terminate().await.stderr.contains(warning));
}

#[tokio::test]
async fn no_refusal_shows_the_programs_inside() {
    let installation = petstore_with_a_store().await;
    for (args, right) in [
        (["serve", "--gateways", "0"].as_slice(), "must be a whole number from 1 to 65535"),
        (&["serve", "--gateways", "x"], "must be a whole number from 1 to 65535"),
        (&["serve", "--gateways", ""], "must be a whole number from 1 to 65535"),
        (
            &["account", "create", "a", "--plan", "enterprise", "--per-minute", "x", "--per-day", "1"],
            "must be a whole number",
        ),
        (
            &["account", "create", "a", "--plan", "enterprise", "--per-minute", "0", "--per-day", "1"],
            "must be a whole number",
        ),
        (&["migrate", "down", "--steps", "0"], "must be a whole number from 1 to"),
        (&["serve", "--service-token-file", "nothing"], "no such file"),
        (&["serve", "--database-url-file", "nothing"], "no such file"),
        (&["import", "nothing.csv"], "o such file"),
        (&["export", "/nowhere/pets.csv"], "o such file"),
        (&["import", "pets.ndjson", "--core-url", "http://127.0.0.1:1"], "cannot reach the core"),
        (&["export", "--core-url", "http://127.0.0.1:1"], "cannot reach the core"),
        (&["migrate", "status", "--database-url", "postgres://127.0.0.1:1/petstore"], "onnection refused"),
        (&["gateway", "--core-url", "http://core:99999"], "--core-url"),
        (&["gateway", "--core-url", "http://user:word@core:1"], "--core-url"),
        (&["gateway", "--core-url", "http://core:1/path"], "--core-url"),
        (&["gateway", "--core-url", "unix://core.sock"], "--core-url"),
    ] {
        std::fs::write(installation.folder().join("pets.ndjson"), "{}\n").unwrap();
        let exit = installation.run(args).await;
        assert!(exit.code.is_some_and(|code| code != 0), "{args:?}: {exit:?}");
        assert!(exit.stderr.contains(right) && exit.stderr.lines().count() == 1, "{args:?}: {exit:?}");
        for inside in [
            "os error",
            "Error(",
            "Error {",
            "tonic::",
            "non-zero type",
            "target type",
            "invalid digit",
            "..=",
            "entity not found",
            "a boolean",
            "Os {",
            "kind:",
            "word@",
        ] {
            assert!(!exit.stderr.contains(inside), "{inside}: {args:?}: {exit:?}");
        }
    }
    let exit = petstore().with_variable("PETSTORE_NO_MIGRATE", "maybe").run(&["serve"]).await;
    assert_refused(&exit, 2);
    assert!(exit.stderr.contains("must be true or false"), "{exit:?}");
}

#[tokio::test]
async fn names_are_resolved_when_a_port_is_bound() {
    let installation = petstore();
    let args =
        ["serve", "--http-addr", "localhost:0", "--grpc-addr", "localhost:0", "--admin-addr", "localhost:0"];
    let server = installation.start(&args).await;
    for port in ["REST", "gRPC", "admin"] {
        assert_eq!(server.address(port).ip().to_string(), "127.0.0.1", "{port}");
    }
    first_client(&installation, &server).get("/v1/pets").await.assert_status(200);
}

/// Returns an installation with an empty store.
async fn petstore_with_a_store() -> Installation {
    let installation = petstore();
    json(&installation, &["migrate", "up"]).await;
    installation
}

#[tokio::test]
async fn a_key_of_the_other_environment_is_not_rotated() {
    let installation = petstore_with_a_store().await;
    json(&installation, &["account", "create", "acme", "--plan", "free"]).await;
    let created =
        json(&installation, &["key", "create", "--account", "acme", "--environment", "staging"]).await;
    let id = created["key"]["id"].as_str().unwrap_or_else(|| panic!("no id: {created}")).to_owned();
    let rotate = |environment| {
        ["key", "rotate", &id, "--grace", "1h", "--environment", environment].map(str::to_owned)
    };
    let refused = installation.run(&rotate("production").each_ref().map(String::as_str)).await;
    assert_refused(&refused, 1);
    assert_eq!(refused.stderr, format!("error: key {id} is of staging\n"));
    let rotated = json(&installation, &rotate("staging").each_ref().map(String::as_str)).await;
    assert!(rotated["apiKey"].as_str().is_some_and(|key| key.starts_with("pet_test_")), "{rotated}");
}

/// Returns the output of the verb, which must be one JSON document, with success.
async fn json(installation: &Installation, args: &[&str]) -> Value {
    let exit = installation.run(&[args, &["--output", "json"]].concat()).await;
    assert_eq!(exit.code, Some(0), "{args:?}: {exit:?}");
    serde_json::from_str(&exit.stdout).unwrap_or_else(|error| panic!("{args:?} ({error}): {exit:?}"))
}

#[track_caller]
fn assert_refused(exit: &Exit, code: i32) {
    assert_eq!(exit.code, Some(code), "{exit:?}");
    assert_eq!(exit.stdout, "", "{exit:?}");
    assert_eq!(exit.stderr.lines().count(), 1, "{exit:?}");
}
